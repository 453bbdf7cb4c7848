// The events of a trace as runs of text that a JSON reader can take one after the other, so that a
// trace of any size, plain or compressed, is read in bounded memory: 4 MiB at
// a time, more only for an event that is longer, and none beyond 256 MiB.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

struct gzFile_s;  // zlib's

namespace msprobe::profile {

// The bytes that matter, in 64 bytes of JSON, to a reader that only looks for the ends of objects:
// a bit per byte, the first byte's lowest. Most bytes of a trace are neither quote nor backslash
// nor bracket; with bits, a loop over the set ones passes by the others.

inline constexpr size_t kJsonBlockBytes = 64;

struct JsonPlaces {
  uint64_t quotes = 0;
  uint64_t backslashes = 0;
  uint64_t brackets = 0;  // of lists and objects, opening and closing
};

namespace internal {

// The bits of the bytes of `word` that equal `wanted`.
inline uint64_t EqualBytes(uint64_t word, char wanted) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  const uint64_t others = word ^ (kOnes * static_cast<unsigned char>(wanted));
  const uint64_t equal = ~(((others & kLow) + kLow) | others) & ~kLow;  // 0x80 where equal
  // Carries the eight flags, each to a bit of its own, into the highest byte.
  return ((equal >> 7U) * 0x0102040810204080) >> 56U;
}

inline JsonPlaces FindPlacesByWords(const char* text) {
  static_assert(std::endian::native == std::endian::little);
  constexpr uint64_t kLowerBits = 0x2020202020202020;  // turn [ and ] into { and }
  JsonPlaces places;
  for (unsigned at = 0; at < kJsonBlockBytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text + at, sizeof word);
    const uint64_t folded = word | kLowerBits;
    places.quotes |= EqualBytes(word, '"') << at;
    places.backslashes |= EqualBytes(word, '\\') << at;
    places.brackets |= (EqualBytes(folded, '{') | EqualBytes(folded, '}')) << at;
  }
  return places;
}

}  // namespace internal

inline JsonPlaces FindPlaces(const char* text) {
#if defined(__SSE2__)
  const __m128i lower = _mm_set1_epi8(0x20);
  const auto bits = [](__m128i flags) {
    return static_cast<uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(flags)));
  };
  JsonPlaces places;
  for (unsigned at = 0; at < kJsonBlockBytes; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
    const __m128i folded = _mm_or_si128(block, lower);
    places.quotes |= bits(_mm_cmpeq_epi8(block, _mm_set1_epi8('"'))) << at;
    places.backslashes |= bits(_mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))) << at;
    places.brackets |= bits(_mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                                         _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))))
                       << at;
  }
  return places;
#else
  return internal::FindPlacesByWords(text);
#endif
}

// State of the reader between two blocks.
struct TextState {
  bool in_text = false;
  bool escaped = false;  // the next byte follows a backslash
};

// The bits of brackets outside of texts; moves `state` behind the block.
inline uint64_t BracketsOutsideTexts(const JsonPlaces& places, TextState& state) {
  uint64_t escaped = state.escaped ? 1 : 0;
  uint64_t backslashes = places.backslashes & ~escaped;
  state.escaped = false;
  while (backslashes != 0) {  // each takes the byte behind it
    const uint64_t first = backslashes & (~backslashes + 1);
    const uint64_t behind = first << 1U;
    state.escaped = behind == 0;
    escaped |= behind;
    backslashes &= ~(first | behind);
  }
  // A bit is set when the number of quotes up to its byte is odd.
  uint64_t inside = places.quotes & ~escaped;
  for (unsigned step = 1; step < kJsonBlockBytes; step *= 2) {
    inside ^= inside << step;
  }
  if (state.in_text) {
    inside = ~inside;
  }
  state.in_text = (inside >> 63U) != 0;
  return places.brackets & ~inside;
}

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
  // Whether it is compressed is seen from its content. Fails where the document is neither a list
  // nor an object.
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
  // The place of the last run's first byte in the (uncompressed) document.
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
  char saved_ = 0;       // the byte that the closing bracket of the last run replaces
  size_t saved_at_ = 0;  // 0: nothing

  // State of the scanner.
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
