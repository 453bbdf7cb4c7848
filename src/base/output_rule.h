// What a command may do to files that exist: one rule for all of them.
//
// A result is a new file, or with --force takes the place of a regular file of the same user.
// Devices, FIFOs, sockets, symbolic links and folders are never replaced. Two runs of one second
// get names of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

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

// A folder for results may be new or exist, but is no file, device or "-".
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

// What a run tells programs, "summary.json". A folder that holds another run's keeps that one: then
// "summary_<stamp>.json", with the stamp of this run's tables. Returns the path.
Result<Path> WriteSummary(const Path& folder, const RunStamp& stamp, std::string_view text);

}  // namespace msprobe::base
