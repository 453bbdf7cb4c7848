#include "src/analysis/monitor/common/series_score.h"

#include <algorithm>
#include <cmath>

#include "src/analysis/monitor/common/table_rows.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of normally distributed values
constexpr double kSmallestShare = 1e-3;       // of the median, see the header
constexpr double kSpreadOfZeros = 1e-6;       // where all else is 0: six decimals, as written
constexpr int kMostDigits = 15;               // beyond, numbers are not rounded
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
Usual UsualOf(std::vector<double>& values, double unit) {
  Usual usual;
  usual.median = UpperMedian(values);
  for (double& value : values) {
    value = std::abs(value - usual.median);
  }
  usual.spread = std::max(
      {kDeviationsPerMad * UpperMedian(values), kSmallestShare * std::abs(usual.median), unit});
  usual.spread = usual.spread > 0 ? usual.spread : kSpreadOfZeros;
  return usual;
}

void KeepFinite(std::span<const double> values, std::vector<double>& out) {
  out.clear();
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [](double value) { return std::isfinite(value); });
}

}  // namespace

void RoundingSeen::Take(double value) {
  constexpr double kExactBelow = 4503599627370496.0;  // 2^52: units are whole there
  while (digits_ <= kMostDigits && std::abs(value * scale_) < kExactBelow &&
         std::rint(value * scale_) / scale_ != value) {
    scale_ = std::pow(10.0, ++digits_);
  }
}

double RoundingSeen::unit() const { return digits_ <= kMostDigits ? 1 / scale_ : 0; }

SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch, double unit) {
  SeriesScore result;
  KeepFinite(values, scratch);
  if (scratch.size() < values.size()) {
    const auto is_bad = [](double value) { return !std::isfinite(value) && !IsNoNumber(value); };
    result.non_finite = static_cast<uint64_t>(std::count_if(values.begin(), values.end(), is_bad));
    result.first_non_finite =
        static_cast<size_t>(std::find_if(values.begin(), values.end(), is_bad) - values.begin());
  }
  if (scratch.size() < kFewestValues) {
    return result;
  }
  const Usual usual = UsualOf(scratch, unit);
  for (size_t i = 0; i < values.size(); ++i) {
    const double score = std::abs(values[i] - usual.median) / usual.spread;
    if (std::isfinite(values[i]) && score > result.score) {
      result.score = score;
      result.at = i;
    }
  }
  return result;
}

double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch,
                    double unit) {
  KeepFinite(history, scratch);
  if (!std::isfinite(value) || scratch.size() < kFewestValues) {
    return 0;
  }
  const Usual usual = UsualOf(scratch, unit);
  return std::abs(value - usual.median) / usual.spread;
}

}  // namespace msprobe::analysis::monitor
