// A comparison as text for a terminal: the verdict, what differs and why it matters with its
// remedy, most important first, then the counts.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/config_check/compare_packs.h"

namespace msprobe::analysis::config_check {

std::string VerdictScreen(const CompareRun& run, size_t width, bool color);

}  // namespace msprobe::analysis::config_check
