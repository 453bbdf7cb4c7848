#include "src/analysis/monitor/common/series_score.h"

#include <algorithm>
#include <cmath>

namespace msprobe::analysis::monitor {
namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of normally distributed values
constexpr double kSmallestShare = 1e-3;       // of the median, see the header
constexpr double kSmallestSpread = 1e-30;
constexpr size_t kFewestValues = 3;

struct Usual {
  double median = 0;
  double spread = 0;
};

double UpperMedian(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Replaces the values by their distances from the median.
Usual UsualOf(std::vector<double>& values) {
  Usual usual;
  usual.median = UpperMedian(values);
  for (double& value : values) {
    value = std::abs(value - usual.median);
  }
  usual.spread = std::max({kDeviationsPerMad * UpperMedian(values),
                           kSmallestShare * std::abs(usual.median), kSmallestSpread});
  return usual;
}

void KeepFinite(std::span<const double> values, std::vector<double>& out) {
  out.clear();
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [](double value) { return std::isfinite(value); });
}

}  // namespace

SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch) {
  SeriesScore result;
  KeepFinite(values, scratch);
  result.non_finite = values.size() - scratch.size();
  if (result.non_finite > 0) {
    result.first_non_finite = static_cast<size_t>(
        std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); }) -
        values.begin());
  }
  if (scratch.size() < kFewestValues) {
    return result;
  }
  const Usual usual = UsualOf(scratch);
  for (size_t i = 0; i < values.size(); ++i) {
    const double score = std::abs(values[i] - usual.median) / usual.spread;
    if (std::isfinite(values[i]) && score > result.score) {
      result.score = score;
      result.at = i;
    }
  }
  return result;
}

double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch) {
  KeepFinite(history, scratch);
  if (!std::isfinite(value) || scratch.size() < kFewestValues) {
    return 0;
  }
  const Usual usual = UsualOf(scratch);
  return std::abs(value - usual.median) / usual.spread;
}

}  // namespace msprobe::analysis::monitor
