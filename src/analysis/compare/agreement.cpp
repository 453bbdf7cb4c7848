// Distances between rows, and what counts as noise; agreement.h has the rules.
//
// All checks work on the recorded statistics. StatisticsDistance() is the largest difference
// over the four, relative to the scale of the row. Two rules hold for values that were only
// rounded: Max and Min must be equal after rounding to the coarser dtype, because rounding is
// monotone, and Mean and Norm may differ by the root of the number of elements times half a
// unit, because roundings point in random directions.
#include "src/analysis/compare/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "msprobe/dtype.h"

#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

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

namespace {

// The distance from 1 to the next number; 0 where the dtype does not round.
double EpsilonOf(DType dtype) { return 2 * tensor::FormatOf(tensor::PartOf(dtype)).unit; }

// To the format whose epsilon it is; what has none, and the 8-bit ones, stays as it is.
double RoundToFormatOf(double epsilon, double value) {
  const DType dtype = epsilon == kEpsilonBFloat16  ? DType::kBFloat16
                      : epsilon == kEpsilonFloat16 ? DType::kFloat16
                      : epsilon == kEpsilonFloat32 ? DType::kFloat32
                                                   : DType::kFloat64;
  return tensor::RoundToDType(dtype, value);
}

// Max and Min carry no rounding of their own. Rounding is monotone: the largest element stays the
// largest, so the coarser side's Max is exactly the finer side's Max rounded, or the tensors were
// not the same.
bool ExtremesAgree(const SideRow& npu, const SideRow& bench, double epsilon) {
  for (const Stat stat : {kMax, kMin}) {
    if (!npu.stats[stat].is_numeric() || !bench.stats[stat].is_numeric()) {
      continue;
    }
    const double n = RoundToFormatOf(epsilon, npu.stats[stat].number);
    const double b = RoundToFormatOf(epsilon, bench.stats[stat].number);
    if (n != b && !(std::isnan(n) && std::isnan(b))) {
      return false;
    }
  }
  return true;
}

// Mean and Norm of a tensor and of its copy rounded to `epsilon`. Roundings of single elements are
// at most epsilon / 2 each and point in random directions, so that they add up with the root of
// their number.
bool SumsOfRoundedAgree(const SideRow& npu, const SideRow& bench, double epsilon) {
  const double elements = ElementCount(npu.shape);
  const double rounding = epsilon * 0.5 * std::min(1.0, 4 / std::sqrt(elements)) +
                          epsilon * epsilon + kWideUnits * kEpsilonFloat32;
  const StatValue& norm = bench.stats[kNorm];
  const double rms = norm.is_numeric() ? std::abs(norm.number) / std::sqrt(elements) : 0;
  for (const auto& [stat, scale] :
       {std::pair{kMean, rms}, std::pair{kNorm, rms * std::sqrt(elements)}}) {
    if (!npu.stats[stat].is_numeric() || !bench.stats[stat].is_numeric()) {
      continue;
    }
    const double difference = std::abs(npu.stats[stat].number - bench.stats[stat].number);
    // Frameworks give the statistics in the tensor's own dtype.
    const double number =
        std::max(std::abs(npu.stats[stat].number), std::abs(bench.stats[stat].number));
    const bool is_rounded =
        RoundToFormatOf(epsilon, npu.stats[stat].number) == npu.stats[stat].number ||
        RoundToFormatOf(epsilon, bench.stats[stat].number) == bench.stats[stat].number;
    if (difference > rounding * scale + (is_rounded ? epsilon * number : 0.0) + kHalfSmallest) {
      return false;
    }
  }
  return true;
}

bool SameFlags(const SideRow& npu, const SideRow& bench) {
  for (const Stat stat : {kMax, kMin}) {
    if (npu.stats[stat].kind == StatKind::kBool &&
        npu.stats[stat].boolean != bench.stats[stat].boolean) {
      return false;
    }
  }
  return true;
}

}  // namespace

double Agreement::Epsilon(const SideRow& row) const {
  if (!row.is_tensor) {
    return 0;
  }
  if (row.rounded_to != DType::kFloat64) {
    return EpsilonOf(row.rounded_to);
  }
  // Dtype texts are interned per side: comparing addresses finds them without reading.
  for (const KnownDType& known : known_) {
    if (known.text.data() == row.dtype.data() && known.text.size() == row.dtype.size()) {
      return known.epsilon;
    }
  }
  const std::optional<DType> dtype = ParseDType(row.dtype);
  const double epsilon = dtype ? EpsilonOf(*dtype) : 0;
  if (known_.size() < 64) {
    known_.push_back({row.dtype, epsilon});
  }
  return epsilon;
}

double MeasuredNoise(const SideRow& npu, const SideRow& bench) {
  if (npu.noise_floor < 0 && bench.noise_floor < 0) {
    return 0;
  }
  const double n = npu.noise_floor < 0 ? bench.noise_floor : npu.noise_floor;
  const double b = bench.noise_floor < 0 ? npu.noise_floor : bench.noise_floor;
  return std::sqrt(n * n + b * b);
}

double Agreement::Noise(const SideRow& npu, const SideRow& bench) const {
  const bool is_recorded = npu.noise_floor >= 0 || bench.noise_floor >= 0;
  if (!is_recorded || Epsilon(npu) != Epsilon(bench)) {
    return DTypeNoise(npu, bench);
  }
  // What was rounded once on either side is a unit apart at most, and so are statistics.
  const double least = kMeasuredLeastUnits * std::max(Epsilon(npu), kEpsilonFloat32);
  return std::max({MeasuredNoise(npu, bench), least, rules_.relative_tolerance});
}

double Agreement::DTypeNoise(const SideRow& npu, const SideRow& bench) const {
  const double n = Epsilon(npu);
  const double b = Epsilon(bench);
  const double coarser = std::max({n, b, kEpsilonFloat32});
  const double units = coarser <= kNarrowFrom ? kWideUnits : n == b ? kNarrowUnits : kMixedUnits;
  return std::max(coarser * units, rules_.relative_tolerance);
}

bool Agreement::RoundsDifferently(const SideRow& npu, const SideRow& bench) const {
  return Epsilon(npu) != Epsilon(bench);
}

bool Agreement::StoredAgrees(const SideRow& npu, const SideRow& bench, const Distance& distance,
                             double largest_relative) const {
  const double n = Epsilon(npu);
  const double b = Epsilon(bench);
  const double coarser = std::max(n, b);
  if (n == b) {
    // Nothing rounds a stored value: other bits are another weight.
    return mode_ == CompareMode::kStatistics && !sums_are_exact_ && ExtremesAgree(npu, bench, 0) &&
           distance.relative <= kWideUnits * kEpsilonFloat32;
  }
  if (std::min(n, b) <= kNarrowFrom && !ExtremesAgree(npu, bench, coarser)) {
    return false;
  }
  if (mode_ != CompareMode::kRealData) {
    return SumsOfRoundedAgree(npu, bench, coarser);
  }
  // No element moves by more than half a unit; float16 is left out, where small elements are
  // subnormal.
  if (coarser == kEpsilonBFloat16 && std::min(n, b) <= kNarrowFrom &&
      largest_relative > coarser / 2 * kHalfUnitRoom) {
    return false;
  }
  const double share = std::min(0.5, kOneRounding + 0.5 / std::sqrt(ElementCount(npu.shape)));
  return distance.relative <= coarser * share || distance.absolute <= kHalfSmallest;
}

bool Agreement::Agrees(const SideRow& npu, const SideRow& bench, const Distance& distance,
                       Provenance provenance, double largest_relative) const {
  if (distance.identical) {
    return true;
  }
  if (distance.nonfinite_differs) {
    return false;
  }
  const bool by_tolerance =
      (rules_.relative_tolerance > 0 && distance.relative <= rules_.relative_tolerance) ||
      (rules_.absolute_tolerance > 0 && distance.absolute <= rules_.absolute_tolerance);
  const bool has_numbers = npu.stats[kMax].kind != StatKind::kNone;
  if (mode_ == CompareMode::kMd5 && !has_numbers) {
    return false;  // checksums differ and nothing says by how much
  }
  if (by_tolerance) {
    return true;
  }
  if (Epsilon(npu) == 0 || Epsilon(bench) == 0) {
    // Integers and flags have no noise; only the float32 sums behind their Mean and Norm have.
    if (mode_ == CompareMode::kMd5 || !SameFlags(npu, bench)) {
      return false;
    }
    if (!npu.is_tensor && npu.stats[kMax].kind == StatKind::kNumber) {
      return distance.relative <= Noise(npu, bench);
    }
    if (!npu.is_tensor || mode_ == CompareMode::kRealData) {
      return distance.relative == 0;
    }
    return ExtremesAgree(npu, bench, 0) && distance.relative <= Noise(npu, bench);
  }
  if (provenance == Provenance::kStored) {
    return StoredAgrees(npu, bench, distance, largest_relative);
  }
  return distance.relative <= Noise(npu, bench);
}

double LargestRelativeOf(const RowResult& row, CompareMode mode) {
  const Metric& metric = row.metrics[kMaxRelativeErr];
  return mode == CompareMode::kRealData && metric.kind == MetricKind::kNumber ? metric.number() : 0;
}

bool SameExtremes(const SideRow& npu, const SideRow& bench) { return ExtremesAgree(npu, bench, 0); }

}  // namespace msprobe::analysis::compare
