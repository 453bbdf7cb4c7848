// From work by operator to findings: what changed most, where, and in which respect.
#pragma once

#include <string_view>
#include <vector>

#include "src/analysis/perf/pair_comparison.h"
#include "src/analysis/perf/work_groups.h"

namespace msprobe::analysis::perf {

// One finding per group whose time changed, `metric` as in findings.h; unsorted. Operators of one
// side that operators of the other side have replaced are one finding, whose change is the net one.
// A change that all operators share to the same degree is one finding of its own, in front.
std::vector<Finding> FindingsOfGroups(std::vector<WorkGroup> groups, std::string_view metric);

}  // namespace msprobe::analysis::perf
