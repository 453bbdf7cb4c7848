// A run as text for a terminal: the verdict first, then where it starts, then the counts.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis {

struct ScreenOptions {
  size_t width = 100;  // characters
  bool color = false;
};

std::string ScreenReport(const RunSummary& summary, const ScreenOptions& options);

}  // namespace msprobe::analysis
