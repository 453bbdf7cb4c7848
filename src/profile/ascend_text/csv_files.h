// Inside of the room: the csv files beside trace_view.json. A file that is missing, has other
// columns or breaks off is told as a warning, or is an error when `strict`.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/ascend_text/trace.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

// kernel_details.csv; kernels that were read before get their shapes from it.
Status ReadKernelDetails(const std::filesystem::path& folder, bool strict, Profile& profile);
// operator_memory.csv; `queue` places what the driver allocated.
Status ReadOperatorMemory(const std::filesystem::path& folder, const TaskQueue& queue, bool strict,
                          Profile& profile);
// memory_record.csv: the most memory that was reserved.
Status ReadMemoryRecord(const std::filesystem::path& folder, bool strict, Profile& profile);
// op_statistic.csv.
Status ReadOperatorStatistic(const std::filesystem::path& folder, bool strict, Profile& profile);

}  // namespace msprobe::profile
