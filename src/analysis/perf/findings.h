// The differences that matter, as an answer to "what got slower": which operators, in which
// modules.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/module_side.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf {

// Names of Finding::metric.
inline constexpr std::string_view kDeviceTime = "device time";
inline constexpr std::string_view kHostTime = "host time";
inline constexpr std::string_view kMemory = "memory";

// Of each metric up to `most` differences, gains too, the largest first; device time, then host
// time, then memory. What makes up less than a thousandth of its metric's sum is noise and left
// out.
//
// Device time (ms): with modules on both sides by outermost operator and class of the innermost
// module around it, what was launched in a module by no operator as such; without (null) by the
// operators of `pairs`. Host time (ms): calls by name, without their callees. Memory (MB): what the
// operators of `pairs` allocated.
std::vector<Finding> FindDifferences(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const ModuleSide* base_modules,
                                     const ModuleSide* comparison_modules, size_t most = 20);

}  // namespace msprobe::analysis::perf
