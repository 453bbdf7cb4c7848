// A run as summary.json, for programs. The keys are described in docs/formats/summary_json.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/analysis/compare/summary.h"
#include "src/json/writer.h"

namespace msprobe::analysis::compare {

std::string SummaryJson(const RunSummary& summary, int exit_code);

// Members of an open object: a number or null, "totals" and the like, and what the walk found
// ("calls", "first_divergence", ...).
void PutNumber(json::Writer& writer, std::string_view key, const std::optional<int64_t>& value);
void PutCounts(json::Writer& writer, std::string_view key, const RowCounts& counts);
void PutDivergence(json::Writer& writer, const DivergenceReport& report);

}  // namespace msprobe::analysis::compare
