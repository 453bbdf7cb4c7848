#include "src/analysis/compare/statistics.h"

#include <algorithm>
#include <cmath>

#include "src/analysis/compare/distance.h"
#include "src/analysis/compare/thresholds.h"

namespace msprobe::analysis::compare {
namespace {

Metric DifferenceCell(double difference) {
  if (std::isinf(difference)) {
    return Metric::Text(difference > 0 ? "inf\t" : "-inf\t");
  }
  return Metric::Number(difference);
}

}  // namespace

void CompareStatistics(const SideRow& npu, const SideRow& bench, RowResult& result) {
  bool warning = false;
  for (size_t i = 0; i < kStatCount; ++i) {
    Metric& difference_cell = result.metrics[kMaxDiff + i];
    Metric& relative_cell = result.metrics[kMaxRel + i];
    if (!npu.stats[i].is_numeric() || !bench.stats[i].is_numeric()) {
      difference_cell = relative_cell = Metric::Text(kNotApplicable);
      continue;
    }
    const double n = npu.stats[i].number;
    const double b = bench.stats[i].number;
    const double difference = n - b;
    if (std::isnan(difference)) {
      difference_cell = relative_cell = Metric::Text("Nan");
      continue;
    }
    difference_cell = DifferenceCell(difference);
    relative_cell =
        b == 0 ? Metric::Text(kNotApplicable) : Metric::Percent(std::fabs(difference / b * 100.0));
    // The larger signed value, then its magnitude: a NaN quotient (inf / inf) is no warning.
    const double magnitude = std::fabs(std::max(n, b)) + statistics_warning::kMagnitudeFloor;
    warning = warning || std::fabs(difference) / magnitude > statistics_warning::kShare;
  }
  result.verdict = warning ? Verdict::kWarning : Verdict::kEmpty;
  if (warning) {
    result.message = "A statistic differs by more than half of its value: look at this call. ";
  }
  result.distance = StatisticsDistance(npu, bench);
}

void CompareChecksums(const SideRow& npu, const SideRow& bench, RowResult& result) {
  result.verdict = npu.md5 == bench.md5 ? Verdict::kPass : Verdict::kDifferent;
  result.distance = Md5Distance(npu, bench);
}

}  // namespace msprobe::analysis::compare
