// The folder of one rank of one step, {dump_path}/step{N}/rank{M}: made, claimed for this process,
// emptied of an earlier dump, moved when the rank becomes known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/layout.h"

namespace msprobe::capture {

inline constexpr const char* kErrorLogName = "dump_error_info.log";

// Everything a capture leaves in a rank folder beside its log.
inline constexpr std::array<std::string_view, 7> kResultNames = {
    dump::kDumpFileName,     dump::kDebugFileName, dump::kStackFileName,   dump::kConstructFileName,
    dump::kManifestFileName, kErrorLogName,        dump::kTensorFolderName};

struct StepPlace {
  std::string dump_path;
  int64_t step = 0;
  std::optional<int64_t> rank;  // not known: folder "rank"

  base::Path step_path() const;
  base::Path rank_path() const;
};

// Whether files may be made there: characters and lengths that all readers accept, once symbolic
// links are resolved, and among the folders that captures make no link and none of another user,
// who could put links there later. The owner of dump_path is trusted.
Status CheckPlace(const StepPlace& place);

class StepFolder {
 public:
  // Makes the folder and takes it: records.log in it is locked for this process (kUsage when
  // another one has it), and what an earlier dump of this run left is removed; another run's is
  // refused. `with_tensors`: dump_tensor_data
  // too.
  static Result<StepFolder> Claim(StepPlace place, bool with_tensors);
  // Of a step that writes nothing: no folder is made, and path() is empty.
  static StepFolder Nowhere(StepPlace place);
  void SetRank(int64_t rank) { place_.rank = rank; }  // of such a step
  // Whether there was an earlier dump.
  bool replaced() const { return replaced_; }

  const StepPlace& place() const { return place_; }
  const base::Path& path() const { return path_; }
  // Empty without.
  const base::Path& tensor_path() const { return tensor_path_; }

  // The locked, empty records.log, open for appending; the caller owns it from now on.
  int TakeLogDescriptor() { return std::exchange(log_descriptor_, -1); }

  // Moves everything to the folder of another rank, whose earlier dump is removed.
  Status MoveTo(int64_t rank);

  StepFolder(StepFolder&& other) noexcept;
  StepFolder& operator=(StepFolder&&) = delete;
  StepFolder(const StepFolder&) = delete;
  StepFolder& operator=(const StepFolder&) = delete;
  ~StepFolder();

 private:
  StepFolder() = default;

  StepPlace place_;
  base::Path path_;
  base::Path tensor_path_;
  int log_descriptor_ = -1;
  bool replaced_ = false;
};

}  // namespace msprobe::capture
