// The events of a trace as runs of text that a JSON reader can take one after the other, so that a
// trace of any size, plain or compressed, is read in bounded memory: 4 MiB at
// a time, more only for an event that is longer, and none beyond 256 MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

struct gzFile_s;  // zlib's

namespace msprobe::profile {

enum class TraceRoot : uint8_t {
  kList,    // the events are the whole document: Ascend's trace_view.json
  kObject,  // they are its member "traceEvents": PyTorch's own traces
};

// The first place behind `from` where an event begins whatever stands in front of it, as far as
// that can be seen: behind a closing brace and a comma, with its phase in front of any other brace;
// npos: there is none.
size_t FindEventStart(std::string_view text, size_t from);

class EventRuns {
 public:
  // Told by content whether it is compressed. Fails where the document is neither a list nor an
  // object.
  static Result<EventRuns> Open(const std::filesystem::path& path);

  TraceRoot root() const { return root_; }
  // The next run, a JSON list of complete events; valid until the next call, and the caller's to
  // write to. nullopt behind the last one. Fails where the file cannot be read or an event is
  // longer than any sane one. An event that does not end, since a quote in it is missing or one too
  // many, is a run that ends where the next event begins.
  Result<std::optional<std::span<char>>> Next();
  // After the last run: the document ended before its list of events did. A bare list needs no
  // closing bracket.
  bool truncated() const { return truncated_; }
  // It did since a compressed file unpacks to more than any trace: the rest of it is left out.
  bool unpacks_too_far() const { return unpacks_too_far_; }
  // Of the last run's first byte inside the (uncompressed) document.
  uint64_t offset() const { return run_offset_; }

 private:
  struct CloseFile {
    void operator()(gzFile_s* file) const;
  };

  EventRuns() = default;
  Status Fill();
  void Scan();
  void ScanBlock();
  void ScanByte(char c, size_t at);
  void ScanText(char c);
  void Consume();
  bool CutUnendingEvent();

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, CloseFile> file_;
  TraceRoot root_ = TraceRoot::kList;

  // The document's bytes that are still needed; buffer_[0] and the last one are ours, for brackets.
  std::vector<char> buffer_;
  size_t filled_ = 1;
  uint64_t buffer_offset_ = 0;  // of buffer_[1] inside the document
  bool file_ended_ = false;
  char saved_ = 0;       // what the closing bracket of the last run stands on
  size_t saved_at_ = 0;  // 0: nothing

  // Where the scanner stands.
  size_t scanned_ = 1;
  int64_t depth_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
  size_t key_matched_ = 0;  // letters of the key in the text at depth 1 so far
  bool key_seen_ = false;   // that text was the key
  enum class ListPosition : uint8_t {
    kBefore,
    kInside,
    kBehind
  } list_position_ = ListPosition::kBefore;
  int64_t list_depth_ = 0;  // depth inside of the list
  size_t run_begin_ = 0;
  size_t run_end_ = 0;   // behind the last complete event; 0: none in the buffer
  size_t searched_ = 0;  // where CutUnendingEvent has looked already

  bool any_run_ = false;
  bool broke_off_ = false;  // the file, in the middle of what is compressed
  uint64_t run_offset_ = 0;
  bool truncated_ = false;
  uint64_t unpacked_left_ = 0;
  bool unpacks_too_far_ = false;
};

}  // namespace msprobe::profile
