#include "src/analysis/perf/result.h"

#include <algorithm>

#include "src/analysis/perf/units.h"

namespace msprobe::analysis::perf {
namespace {

std::string DeviceName(profile::Device device) {
  return device == profile::Device::kGpu ? "GPU" : "NPU";
}

SideTimes TimesOf(const TimeSplit& split, const std::optional<OverallTimes>& times) {
  SideTimes side;
  side.end_to_end_ms = split.end_to_end;
  side.computing_ms = split.computing;
  side.uncovered_communication_ms = split.communication;
  side.copies_ms = split.copies;
  side.free_ms = split.copies + split.idle;
  if (times.has_value()) {
    side.wait_ms = times->wait_s * kMsPerS;
    side.memory_gb = times->memory_gb;
  }
  return side;
}

}  // namespace

RankSummary Summarize(const PairComparison& comparison) {
  RankSummary summary;
  summary.base_device = DeviceName(comparison.base_device);
  summary.comparison_device = DeviceName(comparison.comparison_device);
  summary.verdict = comparison.verdict;
  summary.has_times = comparison.base_split.has_value() && comparison.comparison_split.has_value();
  if (summary.has_times) {
    summary.of_host = comparison.base_split->of_host;
    summary.base = TimesOf(*comparison.base_split, comparison.base_times);
    summary.comparison = TimesOf(*comparison.comparison_split, comparison.comparison_times);
  }
  summary.has_unowned =
      comparison.base_unowned.has_value() && comparison.comparison_unowned.has_value();
  if (summary.has_unowned) {
    summary.base_unowned = *comparison.base_unowned;
    summary.comparison_unowned = *comparison.comparison_unowned;
  }
  summary.kernel_families = comparison.kernel_families;
  summary.kernels = comparison.kernel_changes;
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

bool AnyRankFailed(const RunSummary& run) {
  return !run.missing.empty() ||
         std::any_of(run.ranks.begin(), run.ranks.end(),
                     [](const RankSummary& rank) { return !rank.error.empty(); });
}

}  // namespace msprobe::analysis::perf
