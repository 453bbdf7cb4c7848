// Many ranks compared by many processes: a launcher (srun, mpirun) starts the same command several
// times, each takes its share, and the results meet on the file system that all of them see.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/run_summary.h"

namespace msprobe::analysis::perf {

struct ProcessShare {
  size_t index = 0;  // of this process
  size_t count = 1;
  std::string launch;  // the same in all processes of one launch, another in every other launch
};

// From the variables of srun, Open MPI or an MPI with PMI; one process where none are set. A job
// script that srun did not start is one process, whatever size its job has.
ProcessShare ShareFromEnvironment();

// Hands on what this process found, in a folder below `output`.
Status DeliverPart(const std::filesystem::path& output, const ProcessShare& share,
                   const RunSummary& part);

// Waits for the parts of all processes and takes them away. Processes that have not delivered when
// `patience` is over are left out; their numbers come back in `late`.
Result<std::vector<RankSummary>> CollectParts(const std::filesystem::path& output,
                                              const ProcessShare& share,
                                              std::chrono::seconds patience,
                                              std::vector<size_t>& late);

}  // namespace msprobe::analysis::perf
