// A folder for results that are written by path: under a name that no reader looks for, inside the
// folder that they are moved into when all of them are whole. A single file is an AtomicFile
// (files.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

// Folders that CreateFolders() made for a result that never came: a command that fails, or has
// nothing to write, must not leave an empty folder behind.

// From now on CreateFolders() notes the folders that it makes. For short-lived programs.
void NoteNewFolders();

// Removes those of them that are empty, the innermost first.
void RemoveEmptyNewFolders();

// Folders that names can be put behind. libstdc++ 12 destroys a component of a path that ends with
// a slash twice where memory ends while something is put behind it, which ends the process.

// "runs" for "runs/"; "/" stays.
inline Path WithoutLastSlash(Path folder) {
  return folder.has_filename() || !folder.has_parent_path() ? folder : folder.parent_path();
}

// `below` in `folder`: the folder itself where it is empty, not "folder/".
inline Path Below(const Path& folder, const Path& below) {
  return below.empty() ? folder : folder / below;
}

// The kind of file at a path, where "nothing" and "unknown" are different answers.
//
// A program that takes an unreadable folder for a missing one gives an answer about less than it
// was asked. So these say no as std::filesystem does, but remember that a look failed.

// A link counts as what it leads to.
bool Exists(const Path& path);
bool IsFolder(const Path& path);
bool IsRegularFile(const Path& path);

// Sorted names of a folder's entries; none of a folder that is not there or cannot be listed.
std::vector<std::string> NamesIn(const Path& folder);

// For those who go on without a file that is there and could not be read. Missing is not a reason.
void NoteUnseen(const Status& status);

// An error that names the first path that could not be looked at (an I/O error, no permission)
// since the program began; asked before it ends. Thread-safe, as all here.
Status CheckUnseenPaths();

// Results under temporary names carry a lock while somebody works on them. A killed process leaves
// its names and loses its locks: the next one that writes into the folder removes what is not
// locked.

// Marks a file or folder that this process has just made as being worked on, until its descriptor
// and all copies of it are closed. False when somebody who looks for leftovers was faster and has
// removed it: make another one. True where there are no locks, too.
bool MarkUnfinished(int descriptor);

// A marked file or folder. `make` makes it under a name that must not exist and gives its
// descriptor, or -1 with errno. It is called again when somebody who looks for leftovers was
// faster. The caller closes the descriptor. -1 with errno when it cannot be made.
int MakeUnfinished(const std::function<int()>& make);

enum class Leftovers : uint8_t {
  kOfResults,   // in a folder for results
  kOfLaunchers  // in the folder for temporary files, those of workers as well
};

// Removes what killed processes of this user left in `folder`, which is looked through once per
// process. Only on file systems of this machine, whose locks are seen by all who could write there.
// Files that cannot be read or removed stay.
void RemoveAbandoned(const Path& folder, Leftovers kind = Leftovers::kOfResults) noexcept;
// The same for an open folder; O_PATH will do.
void RemoveAbandonedIn(int folder, Leftovers kind = Leftovers::kOfResults) noexcept;

// The rule about existing files, the same for all commands.
//
// A result is a new file, or with --force takes the place of a regular file of the same user.
// Devices, FIFOs, sockets, symbolic links and folders are never replaced. Two runs of one second
// get names of their own.

// The rule of this process for files that are written without saying more: kRefuse until --force
// says otherwise.
void SetExistingFiles(Existing rule);
Existing ExistingFiles();

// "-", /dev/stdout and the other names of the standard output. Files cannot be written to it: a
// command that can stream its result does so itself.
bool IsStandardOutput(const Path& path);

// Whether a result may be written to `path` by the rule of this process, asked before hours of
// work; AtomicFile asks again when the file is complete. kUsage otherwise, with the way out.
Status CheckOutputFile(const Path& path);
Status CheckOutputFiles(std::span<const Path> paths);

// The same without regard to whose file it is (network file systems change that), for `existing`.
Status CheckReplaceable(const Path& path, Existing existing);

// A folder for results may be new or exist, but is not a file, device or "-".
Status CheckOutputFolder(const Path& folder);

// Whether this process can make files in a folder, or that folder in the nearest one above it that
// exists. kIo otherwise.
Status CheckWritable(const Path& folder);

// The time that stands in the names of one run's results, "20250101093000"; "20250101093000_1" and
// so on when another run has taken that second in the same folder. It is taken until the object
// ends, and afterwards by the files that are named so.
class RunStamp {
 public:
  // Makes `folder`. `time` is the local time, or what the caller wants to stand in the names.
  static Result<RunStamp> Take(const Path& folder, const std::string& time);

  // A time that is not taken: of a process that writes beside the one that took it.
  static RunStamp Shared(const std::string& time);

  RunStamp() = default;  // none
  RunStamp(RunStamp&& other) noexcept;
  RunStamp& operator=(RunStamp&& other) noexcept;
  RunStamp(const RunStamp&) = delete;
  RunStamp& operator=(const RunStamp&) = delete;
  ~RunStamp();

  const std::string& text() const { return text_; }

 private:
  void Release();

  std::string text_;
  int descriptor_ = -1;      // of the reservation, locked: a killed run holds nothing
  std::string reservation_;  // an empty file, made with O_EXCL
  int cleanup_slot_ = -1;
};

// The name of a run's answer for programs, "summary.json". A folder that holds another run's keeps
// that one: then "summary_<stamp>.json", with the stamp of this run's tables. Returns the path.
Result<Path> WriteSummary(const Path& folder, const RunStamp& stamp, std::string_view text);

// A file that a library writes by its path: under a name that no reader looks for until it is
// whole. What we write ourselves is an AtomicFile (files.h).

class PartialFile {
 public:
  // A file of that name from an earlier run is removed. The destructor removes it, and so does an
  // interrupt (processes.h), unless it was renamed.
  explicit PartialFile(std::filesystem::path path);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  // Makes the file, empty: never through a link that somebody else has put there meanwhile.
  Status Create();
  const std::filesystem::path& path() const { return path_; }
  // By the rule of this process for files that exist (output_files.h).
  Status RenameTo(const std::filesystem::path& target);

 private:
  const std::filesystem::path path_;
  int slot_ = -1;
  int descriptor_ = -1;  // for its lock (output_files.h)
};

class StagingFolder {
 public:
  // Inside of `output`, which Create() makes if it is not there.
  explicit StagingFolder(const std::filesystem::path& output);
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  // Removes it with what is left in it, and `output` if it was made and is empty; an interrupt
  // (processes.h) removes it, too.
  ~StagingFolder();

  // Makes it, marked as one that somebody works in (output_files.h).
  Status Create();
  const std::filesystem::path& path() const { return path_; }

  // Moves its files into `output`, none of them if one has no right to its name there by the rule
  // of this process for files that exist (output_files.h).
  Status MoveFiles();

 private:
  const bool created_output_;
  const std::filesystem::path output_;
  const std::filesystem::path path_;
  const int cleanup_slot_;
  int descriptor_ = -1;  // for its lock
};

}  // namespace msprobe::base
