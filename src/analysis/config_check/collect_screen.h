// What was collected, as text for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/config_check/collect.h"

namespace msprobe::analysis::config_check {

std::string CollectScreen(const CollectSummary& summary, size_t width, bool color);

}  // namespace msprobe::analysis::config_check
