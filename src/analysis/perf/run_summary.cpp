#include "src/analysis/perf/run_summary.h"

#include <algorithm>

namespace msprobe::analysis::perf {
namespace {

constexpr double kMsPerS = 1e3;

std::string DeviceName(profile::Device device) {
  return device == profile::Device::kGpu ? "GPU" : "NPU";
}

SideTimes TimesOf(const OverallTimes& times) {
  return {times.end_to_end_s * kMsPerS, times.computing_s * kMsPerS, times.uncovered_s * kMsPerS,
          times.wait_s * kMsPerS,       times.free_s * kMsPerS,      times.memory_gb};
}

}  // namespace

RankSummary Summarize(const Comparison& comparison) {
  RankSummary summary;
  summary.base_device = DeviceName(comparison.base_device);
  summary.comparison_device = DeviceName(comparison.comparison_device);
  // Two sides of which nothing ran on a device have no times to show.
  summary.has_times =
      comparison.base_times.has_value() && comparison.comparison_times.has_value() &&
      (comparison.base_times->end_to_end_s > 0 || comparison.comparison_times->end_to_end_s > 0);
  if (summary.has_times) {
    summary.base = TimesOf(*comparison.base_times);
    summary.comparison = TimesOf(*comparison.comparison_times);
  }
  summary.findings = comparison.findings;
  summary.collectives = comparison.collectives;
  summary.warnings = comparison.warnings;
  return summary;
}

Spread SpreadOf(const RunSummary& run, SideTimes RankSummary::*side, double SideTimes::*time) {
  Spread spread;
  size_t count = 0;
  for (const RankSummary& rank : run.ranks) {
    if (!rank.has_times) {
      continue;
    }
    const double ms = rank.*side.*time;
    if (count == 0 || ms > spread.slowest_ms) {
      spread.slowest_ms = ms;
      spread.slowest_rank = rank.rank;
    }
    spread.mean_ms += ms;
    ++count;
  }
  if (count > 0) {
    spread.mean_ms /= static_cast<double>(count);
  }
  return spread;
}

std::optional<Growth> LargestGrowth(const RunSummary& run, double SideTimes::*time) {
  std::optional<Growth> largest;
  for (const RankSummary& rank : run.ranks) {
    const double ms = rank.comparison.*time - rank.base.*time;
    if (rank.has_times && (!largest.has_value() || ms > largest->ms)) {
      largest = Growth{rank.rank, ms};
    }
  }
  return largest;
}

bool AnyGateFailed(const RunSummary& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [](const RankSummary& rank) {
    return std::any_of(rank.gates.begin(), rank.gates.end(),
                       [](const GateOutcome& gate) { return gate.failed; });
  });
}

bool AnyRankFailed(const RunSummary& run) {
  return !run.missing.empty() ||
         std::any_of(run.ranks.begin(), run.ranks.end(),
                     [](const RankSummary& rank) { return !rank.error.empty(); });
}

}  // namespace msprobe::analysis::perf
