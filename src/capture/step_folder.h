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
inline constexpr std::array<std::string_view, 10> kResultNames = {dump::kDumpFileName,
                                                                  dump::kDebugFileName,
                                                                  dump::kStackFileName,
                                                                  dump::kConstructFileName,
                                                                  dump::kManifestFileName,
                                                                  dump::kLayoutFileName,
                                                                  dump::kReducedGradientsFileName,
                                                                  kErrorLogName,
                                                                  dump::kTensorFolderName,
                                                                  dump::kReducedTensorFolderName};

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
  // For a step that writes nothing: no folder is made, and path() is empty.
  static StepFolder Nowhere(StepPlace place);
  void SetRank(int64_t rank) { place_.rank = rank; }  // of such a step
  // Whether there was an earlier dump.
  bool replaced() const { return replaced_; }

  const StepPlace& place() const { return place_; }
  const base::Path& path() const { return path_; }
  // Empty without.
  bool with_tensors() const { return with_tensors_; }

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
  bool with_tensors_ = false;
  int log_descriptor_ = -1;
  bool replaced_ = false;
};

// Identifies the run that a dump belongs to, so that no run replaces or mixes with the dump of
// another.

// The run that this process is part of, the same for all processes of it where something tells:
// MSPROBE_RUN_ID (msprobe dump sets it), torchrun's id, else this process. Stands in manifest.json
// and in the log of a step.
const std::string& RunIdentity();

// Whether `run` is this one: the same identity, or a process that this one descends from. An empty
// `run` is an unknown one.
bool IsThisRun(std::string_view run);

// This process, as IsLivingProcess reads it: another one that is given the same number later has
// another name. Stands in manifest.json.
std::string ProcessIdentity();

// Whether a process of this name lives on this host. One that has ended and is not waited for yet
// does not.
bool IsLivingProcess(std::string_view process);

// The run that left its dump, or the records of one, in a rank folder. Empty: a dump that does not
// tell. kNotFound: there is none.
Result<std::string> RunOfDump(const base::Path& rank_folder);

// An error when a dump of this rank, of whatever step, is in place.dump_path that belongs to
// another run, or to a living process of this one. Other ranks of this run write beside it.
Status CheckOtherRuns(const StepPlace& place);

// Checks before a run: an error if dump_path holds a dump of another run that has been finished on
// this host, or long ago, which this run would neither replace nor extend. `rank`: the only one
// that will be written, if that is known. Not an error: what may be another node's part of this
// run, whose processes cannot be seen from here.
Status CheckBeforeRun(const std::string& dump_path, std::optional<int64_t> rank);

// An error (kUsage) when a living process of this run other than this one left its dump in a rank
// folder: a script that started this process, say, and is between two steps of its own.
Status CheckLivingOwner(const base::Path& rank_folder);

// The error that tells of a folder that another process has.
Status BusyError(const base::Path& folder);

// Whether the dump of another run may be replaced: MSPROBE_REPLACE_DUMP is set and not empty.
bool ReplacesOtherRuns();

// The error that tells of another run's dump in `folder`, and the ways out.
Status OtherRunError(const base::Path& folder);

}  // namespace msprobe::capture
