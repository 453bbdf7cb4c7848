// One command run by many processes: a launcher (srun, mpirun) starts it several times, each
// process takes its share of the work, and the results meet on the file system that all of them
// see. No MPI library is linked: what the launcher says in the environment is enough to share out
// items that do not depend on each other, and the program runs on machines without one.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

struct ProcessShare {
  size_t index = 0;  // of this process
  size_t count = 1;
  std::string launch;  // the same in all processes of one launch, another in every other launch

  // Items are dealt out one by one, so that a long one delays only its own process's others.
  bool Takes(size_t item) const { return item % count == index; }
  size_t CountOf(size_t items) const { return items / count + (index < items % count ? 1 : 0); }
};

// From the variables of srun, Open MPI or an MPI with PMI; one process where none are set. A job
// script that srun did not start is one process, whatever size its job has.
ProcessShare ShareFromEnvironment();

// What one process hands on: a file in a folder of the launch, which appears complete.
struct Part {
  Path file;  // for messages
  std::string text;
};

// `folder`: of the launch, the same for all its processes and for no others; see PartsFolder.
Status DeliverPart(const Path& folder, const ProcessShare& share, std::string_view text);

// Waits for the parts of all processes, in any order, and takes them away, at last the folder.
// Processes that have not delivered when `patience` is over are left out; their numbers come back
// in `late`. A part beyond 1 GiB is an error.
Result<std::vector<Part>> CollectParts(const Path& folder, const ProcessShare& share,
                                       std::chrono::seconds patience, std::vector<size_t>& late);

// OUTPUT/.<command>_parts<launch>
Path PartsFolder(const Path& output, std::string_view command, const ProcessShare& share);

}  // namespace msprobe::base
