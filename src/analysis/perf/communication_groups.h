// Where the time of uncovered communication went, group by group: waiting for others, or moving
// data.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/perf/intervals.h"
#include "src/analysis/perf/overall_times.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// Of every group of the profile, in its order. `uncovered`: by rising start.
std::vector<GroupTime> MeasureGroups(const profile::Profile& side, const Intervals& uncovered);

// Uncovered time in which two groups communicate at once; pairs without any are left out. None, and
// a warning, where there are more groups than any rank is in.
std::vector<GroupOverlap> MeasureGroupOverlaps(const profile::Profile& side,
                                               const Intervals& uncovered,
                                               std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
