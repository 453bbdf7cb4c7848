// One command run by many processes: a launcher (srun, mpirun) starts it several times, each
// process takes its share of the work, and the results meet on the file system that all of them
// see. No MPI library is linked: what the launcher says in the environment is enough to share out
// items that do not depend on each other, and the program runs on machines without one.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

// Ctrl-C and termination leave nothing half-written: files under temporary names are removed before
// the process ends.

// Installs handlers for SIGINT, SIGTERM and SIGHUP that remove registered files and then let the
// signal end the process. An exception that cannot be caught (libraries throw for lack of memory
// where they promised not to) removes them too and ends the process with exit code 3 and a message.
void InstallInterruptCleanup();

// Ends a process as above when an exception leaves it uncaught. Part of
// InstallInterruptCleanup(); alone for what runs before main().
void InstallTerminateCleanup();

// While one lives, the first Ctrl-C (SIGINT) is only noted, for work that can end with what it has
// so far; the second ends the process as above. At most one lives at a time.
class FirstInterrupt {
 public:
  // `message` goes to stderr when the signal comes: what happens next.
  explicit FirstInterrupt(const std::string& message);
  ~FirstInterrupt();
  FirstInterrupt(const FirstInterrupt&) = delete;
  FirstInterrupt& operator=(const FirstInterrupt&) = delete;

  bool came() const;

 private:
  bool is_ignored_ = false;  // by a parent, for us (nohup)
};

// Registers a file, or a folder that is removed with all that is in it; returns a slot for
// ForgetOnInterrupt, or -1 when the table is full or the path too long (the file would then survive
// an interrupt under its temporary name, nothing worse).
int RemoveOnInterrupt(const std::string& path);
void ForgetOnInterrupt(int slot);

// Runs another program to its end and keeps what it says. For questions to tools of the user; a
// script that is to be captured runs through commands/launcher.h, which passes signals on.

struct ChildOptions {
  std::vector<std::string> program;  // looked up in PATH; with its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};  // set in its environment
  std::chrono::milliseconds patience{60'000};                       // it is killed afterwards
  size_t most_bytes = size_t{1} << 20;  // of output that is kept; the rest is read and dropped
};

struct ChildEnd {
  int exit_code = 0;
  int signal = 0;          // not 0: ended by it
  bool timed_out = false;  // killed by us
  bool cut = false;        // it said more than was kept
  std::string output;      // standard output and standard error, as they came
};

// This process's environment with some variables replaced, "NAME=value" each. `keeps` says which of
// the others stay; empty: all.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes,
    const std::function<bool(std::string_view name, std::string_view value)>& keeps = {});

// The arguments of exec() and its relatives: pointers into `texts`, which they must not outlive,
// and null.
std::vector<char*> Pointers(std::vector<std::string>& texts);

// An error when it cannot be started at all. Its standard input is empty.
Result<ChildEnd> RunChild(const ChildOptions& options);

// Whether an open folder is on a file system of this machine: its locks are seen by all who could
// write there.
bool IsOfThisMachine(int folder);

struct ProcessShare {
  size_t index = 0;  // of this process
  size_t count = 1;
  std::string launch;    // the same in all processes of one launch, another in every other launch
  bool by_hand = false;  // started one by one, perhaps long after each other
};

// From the variables of srun, Open MPI or an MPI with PMI; one process where none are set. A job
// script that srun did not start is one process, whatever size its job has.
ProcessShare ShareFromEnvironment();

// The contribution of one process: a file in a folder of the launch, which appears complete.
struct Part {
  Path file;  // for messages
  std::string text;
  size_t index = 0;  // of its process
};

// What else there is to know about parts that are collected; all may be empty.
struct PartRules {
  // Whether a part belongs to this run; others stay, and are replaced when the right one comes.
  std::function<bool(std::string_view text)> accepts;
  // Whether a process is known to have ended without a part: it is not waited for.
  std::function<bool(size_t index)> has_ended;
  bool skips_own = false;  // this process's own part is not waited for
  bool keeps = false;      // parts stay where they are, for another try
};

// `folder`: of the launch, the same for all its processes and for no others; see PartsFolder. A
// part of this process that is there already is replaced.
Status DeliverPart(const Path& folder, const ProcessShare& share, std::string_view text);

// Waits for the parts of all processes, in any order, and takes them away, at last the folder.
// Processes that have not delivered when `patience` is over are left out; their numbers come back
// in `late`. A part beyond 1 GiB is an error.
Result<std::vector<Part>> CollectParts(const Path& folder, const ProcessShare& share,
                                       std::chrono::seconds patience, std::vector<size_t>& late,
                                       const PartRules& rules = {});

// The part of process `index` in `folder`.
Path PartFile(const Path& folder, const ProcessShare& share, size_t index);

// OUTPUT/.<command>_parts<launch>
Path PartsFolder(const Path& output, std::string_view command, const ProcessShare& share);

}  // namespace msprobe::base
