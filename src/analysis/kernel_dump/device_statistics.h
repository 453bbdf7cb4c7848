// Statistics that a device computed itself (`dump_data: stats`): a .csv per kernel, called like its
// dump, and one table of all of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/result.h"

namespace msprobe::analysis::kernel_dump {

inline constexpr const char* kMergedStatistics = "statistic.csv";

// Writes <output>/<folder>/statistic.csv for each folder of `tables`, which are kernels in order of
// time: the columns of the device by name, its Count left out, behind those of the kernel. Adds a
// FileResult for each table and the written files to `findings`; a table that cannot be read is
// told there, and the others go on. A table ends at kLargestStatistics bytes.
inline constexpr uint64_t kLargestStatistics = uint64_t{10} << 20U;
Status MergeDeviceStatistics(const std::filesystem::path& output,
                             const std::vector<DumpPath>& tables, Findings& findings);

}  // namespace msprobe::analysis::kernel_dump
