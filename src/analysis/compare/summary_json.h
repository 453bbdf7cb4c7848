// A run as summary.json, for programs. The keys are described in docs/formats/summary_json.md.
#pragma once

#include <string>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis {

std::string SummaryJson(const RunSummary& summary, int exit_code);

}  // namespace msprobe::analysis
