#include "src/analysis/compare/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace msprobe::analysis::compare {
namespace {

std::optional<double> NumberOf(const StatValue& value) {
  if (value.is_numeric()) {
    return value.number;
  }
  if (value.kind == StatKind::kBool) {
    return value.boolean ? 1.0 : 0.0;
  }
  return std::nullopt;
}

bool SameNumber(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double FiniteMagnitude(double value) { return std::isfinite(value) ? std::abs(value) : 0.0; }

// What the differences of one statistic are measured against.
struct Scales {
  double extreme = 0;  // of Max and Min
  double rms = 0;      // of Mean
  double norm = 0;     // of Norm
};

Scales ScalesOf(const SideRow& row, double elements) {
  Scales scales;
  const std::optional<double> max = NumberOf(row.stats[kMax]);
  const std::optional<double> min = NumberOf(row.stats[kMin]);
  const std::optional<double> norm = NumberOf(row.stats[kNorm]);
  scales.extreme = std::max(FiniteMagnitude(max.value_or(0)), FiniteMagnitude(min.value_or(0)));
  scales.norm = FiniteMagnitude(norm.value_or(0));
  scales.rms = scales.norm > 0 ? scales.norm / std::sqrt(elements) : scales.extreme;
  return scales;
}

// Scaling rounds, and so do sums: units of float32.
constexpr double kFactorDigits = 4 * 0x1p-23;
constexpr double kFactorShare = 1e-3;
// A factor this many times its digits or more is a factor.
constexpr double kFactorFrom = 32 * kFactorDigits;
// One element that holds all of Norm says of Norm what Max and Min say.
constexpr double kFewestAlike = 2;

double Against(double difference, double scale, double fallback) {
  const double denominator = scale > 0 ? scale : fallback;
  return denominator > 0 ? difference / denominator : 1.0;
}

}  // namespace

double ElementCount(std::string_view shape) {
  if (shape.size() < 3 || shape.front() != '[') {
    return 1;
  }
  double product = 1;
  double axis = 0;
  for (const char c : shape.substr(1)) {
    if (c >= '0' && c <= '9') {
      axis = axis * 10 + (c - '0');
    } else if (c == ',' || c == ']') {
      product *= axis;
      axis = 0;
    }
  }
  return std::max(product, 1.0);
}

std::optional<double> CommonFactor(const SideRow& npu, const SideRow& bench) {
  const std::optional<double> norm = NumberOf(npu.stats[kNorm]);
  const Scales scales = ScalesOf(bench, ElementCount(bench.shape));
  if (!npu.is_tensor || !norm || !(scales.extreme > 0) ||
      scales.norm * scales.norm < kFewestAlike * scales.extreme * scales.extreme) {
    return std::nullopt;
  }
  const double factor = *norm / scales.norm;
  const double apart = std::abs(factor - 1);
  if (!(apart >= kFactorFrom) || !std::isfinite(apart) ||
      SameNumber(bench.stats[kMax].number, bench.stats[kMin].number)) {
    return std::nullopt;
  }
  const double within = kFactorDigits + kFactorShare * apart;
  for (const Stat stat : {kMax, kMin, kMean}) {
    const std::optional<double> n = NumberOf(npu.stats[stat]);
    const std::optional<double> b = NumberOf(bench.stats[stat]);
    if (n && b &&
        !(std::abs(*n - factor * *b) <= within * (stat == kMean ? scales.rms : std::abs(*b)))) {
      return std::nullopt;
    }
  }
  return factor - 1;
}

Distance StatisticsDistance(const SideRow& npu, const SideRow& bench) {
  Distance distance;
  distance.identical = true;
  std::optional<Scales> npu_scales;
  std::optional<Scales> bench_scales;
  double elements = 1;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const std::optional<double> n = NumberOf(npu.stats[stat]);
    const std::optional<double> b = NumberOf(bench.stats[stat]);
    if (!n || !b) {
      continue;
    }
    distance.comparable = true;
    if (SameNumber(*n, *b)) {
      continue;
    }
    distance.identical = false;
    if (!std::isfinite(*n) || !std::isfinite(*b)) {
      distance.nonfinite_differs = true;
      continue;
    }
    if (!bench_scales) {
      elements = npu.is_tensor ? ElementCount(npu.shape) : 1;
      npu_scales = ScalesOf(npu, elements);
      bench_scales = ScalesOf(bench, elements);
    }
    const double difference = std::abs(*n - *b);
    double relative = 0;
    double absolute = difference;
    if (stat == kMean) {
      relative = Against(difference, bench_scales->rms, npu_scales->rms);
    } else if (stat == kNorm) {
      relative = Against(difference, bench_scales->norm, npu_scales->norm);
      absolute = difference / std::sqrt(elements);
    } else {
      relative = Against(difference, bench_scales->extreme, npu_scales->extreme);
    }
    distance.relative = std::max(distance.relative, relative);
    distance.absolute = std::max(distance.absolute, absolute);
  }
  if (distance.nonfinite_differs) {
    distance.relative = std::numeric_limits<double>::infinity();
    distance.absolute = std::numeric_limits<double>::infinity();
  }
  distance.identical = distance.identical && distance.comparable;
  return distance;
}

Distance Md5Distance(const SideRow& npu, const SideRow& bench) {
  Distance distance;
  if (npu.md5 == bench.md5) {
    distance.comparable = true;
    distance.identical = true;
    return distance;
  }
  distance = StatisticsDistance(npu, bench);
  distance.comparable = true;
  distance.identical = false;
  return distance;
}

}  // namespace msprobe::analysis::compare
