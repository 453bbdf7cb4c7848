// Summaries made by hand.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "src/analysis/perf/findings.h"
#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf::test_support {

// A pair whose comparison takes `growth_ms` longer, all of it computing.
inline RankSummary MadeRank(std::optional<int64_t> rank, double growth_ms) {
  RankSummary summary;
  summary.rank = rank;
  summary.base_path = "before";
  summary.comparison_path = "after";
  summary.base_device = "GPU";
  summary.comparison_device = "NPU";
  summary.has_times = true;
  summary.base = {100, 60, 30, 0, 10, 0};
  summary.comparison = {100 + growth_ms, 60 + growth_ms, 30, 0, 10, 0};
  summary.verdict = {"SLOWER", growth_ms,
                     fmt::format("SLOWER by {:.1f} %, mostly computing: aten::mm", growth_ms)};
  return summary;
}

inline Finding MadeFinding(std::string where, double base, double comparison,
                           std::string_view metric = kDeviceTime) {
  Finding finding;
  finding.where = std::move(where);
  finding.metric = metric;
  finding.base = base;
  finding.comparison = comparison;
  finding.base_calls = 24;
  finding.comparison_calls = 24;
  return finding;
}

inline RunSummary MadeRun(std::vector<RankSummary> ranks) {
  RunSummary run;
  run.ranks = std::move(ranks);
  return run;
}

}  // namespace msprobe::analysis::perf::test_support
