#include "src/perturb/ratio.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "src/kernels/element_pairs.h"
#include "src/kernels/ratios.h"
#include "src/perturb/perturbation.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::perturb {
namespace {

constexpr double kBackwardBound = 1e-3;
constexpr double kOtherNoise = 1e-8;
constexpr double kMebibyte = 1048576.0;
constexpr int kMebibytesOfChunk = 4;  // as a power of two
constexpr size_t kMostChunks = 128;

// The arithmetic of a dtype: the type that it is done in, and its rounding.
template <typename Number>
struct Plain {
  using Value = Number;
  static constexpr DType kDType =
      sizeof(Number) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;
  static Value Round(Value value) { return value; }
  static constexpr Value kLargest = std::numeric_limits<Number>::max();
};
struct Half : Plain<float> {
  static constexpr DType kDType = DType::kFloat16;
  static float Round(float value) { return tensor::Float16ToFloat(tensor::FloatToFloat16(value)); }
  static constexpr float kLargest = static_cast<float>(tensor::FormatOf(kDType).largest);
};
struct Brain : Plain<float> {
  static constexpr DType kDType = DType::kBFloat16;
  static float Round(float value) {
    return tensor::BFloat16ToFloat(tensor::FloatToBFloat16(value));
  }
  static constexpr float kLargest = static_cast<float>(tensor::FormatOf(DType::kBFloat16).largest);
};

// How a Value lies in memory: its bits show a vector unit what it is.
template <typename Value>
using InMemory = std::conditional_t<std::is_same_v<Value, float>, Float32, Float64>;

template <typename Value>
bool AllFinite(std::span<const Value> values) {
  using Bits = typename InMemory<Value>::Bits;
  constexpr Bits kExponent = InMemory<Value>::kExponent;
  const Value* const value = values.data();
  const size_t count = values.size();
  Bits odd = 0;
  for (size_t i = 0; i < count; ++i) {
    odd |= (std::bit_cast<Bits>(value[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return odd == 0;
}

// The largest ratios in a run of elements.
struct Extremes {
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  uint64_t largest_index = 0;
  uint64_t smallest_index = 0;
  double sum = 0;
  uint64_t summed = 0;
  bool sign_changes = false;
  bool any_nan = false;

  template <typename IndexOf>
  void Include(double ratio, const IndexOf& index_of) {
    if (ratio > largest) {
      largest = ratio;
      largest_index = index_of(ratio);
    }
    if (ratio < smallest) {
      smallest = ratio;
      smallest_index = index_of(ratio);
    }
  }

  // The ratio and whose it is.
  std::pair<double, uint64_t> Worst() const {
    if (largest == 0 && std::isinf(smallest)) return {1, 0};  // no elements
    const double inverse = smallest == 0 ? std::numeric_limits<double>::infinity() : 1 / smallest;
    return inverse > largest ? std::pair(inverse, smallest_index)
                             : std::pair(largest, largest_index);
  }
};

template <typename Format>
class RatioWalk {
 public:
  using Value = typename Format::Value;

  // details: whether the sum and the number of elements that exceed the threshold are asked for.
  RatioWalk(const RatioRules& rules, double bound, bool details, RatioResult& counts)
      : rules_(rules),
        details_(details),
        bound_(Format::Round(static_cast<Value>(bound))),
        flips_below_(-static_cast<double>(bound) * bound),
        counts_(counts) {}

  // Most elements are the same, or nearly: they are taken many at a time.
  void Add(std::span<const Value> original, std::span<const Value> perturbed, size_t first,
           Extremes& extremes) {
    for (size_t begin = 0; begin < original.size(); begin += kRunElements) {
      const size_t count = std::min(kRunElements, original.size() - begin);
      const std::span<const Value> o = original.subspan(begin, count);
      const std::span<const Value> p = perturbed.subspan(begin, count);
      if (AddEqual(o, p, first + begin, extremes)) {
        continue;
      }
      if (!AddNumbers(o, p, first + begin, extremes)) {
        AddOneByOne(o, p, first + begin, extremes);
      }
    }
  }

 private:
  static constexpr size_t kRunElements = 256;

  void AddOnes(size_t count, size_t first, Extremes& extremes) {
    extremes.Include(1, [first](double) { return first; });
    counts_.exceeding_count += 1 > rules_.threshold ? count : 0;
    extremes.sum += static_cast<double>(count);
    extremes.summed += count;
  }

  // Equal numbers, the changed ones of their dtype: all ratios are 1. False: they are not.
  bool AddEqual(std::span<const Value> o, std::span<const Value> p, size_t first,
                Extremes& extremes) {
    if (std::memcmp(o.data(), p.data(), o.size_bytes()) != 0 || !AllFinite(o)) {
      return false;
    }
    AddOnes(o.size(), first, extremes);
    return true;
  }

  // Finite numbers, no two of different signs. False: there are others.
  bool AddNumbers(std::span<const Value> original, std::span<const Value> perturbed, size_t first,
                  Extremes& extremes) {
    Value memory[kRunElements];
    const std::span<Value> ratios(memory, original.size());
    const kernels::RatioRule rule{.floor = static_cast<double>(bound_),
                                  .most = static_cast<double>(Format::kLargest),
                                  .threshold = rules_.threshold,
                                  .details = details_};
    const std::optional<kernels::RatioRun> run = RatiosOf(original, perturbed, rule, ratios);
    if (!run) {
      return false;
    }
    const auto index_of = [&](double ratio) {
      const auto found = std::find(ratios.begin(), ratios.end(), static_cast<Value>(ratio));
      return first + static_cast<size_t>(found - ratios.begin());
    };
    extremes.Include(run->largest, index_of);
    extremes.Include(run->smallest, index_of);
    counts_.exceeding_count += run->exceeding;
    extremes.sum += run->sum;
    extremes.summed += original.size();
    return true;
  }

  static std::optional<kernels::RatioRun> RatiosOf(std::span<const Value> original,
                                                   std::span<const Value> perturbed,
                                                   const kernels::RatioRule& rule,
                                                   std::span<Value> ratios) {
    if constexpr (std::is_same_v<Value, float>) {
      return kernels::RatiosOf(Format::kDType, original, perturbed, rule, ratios);
    } else {
      return kernels::RatiosOf(original, perturbed, rule, ratios);
    }
  }

  void AddOneByOne(std::span<const Value> original, std::span<const Value> perturbed, size_t first,
                   Extremes& extremes) {
    for (size_t i = 0; i < original.size(); ++i) {
      const Value o = Format::Round(original[i]);
      const Value p = perturbed[i];
      const double product = static_cast<double>(o) * static_cast<double>(p);
      extremes.sign_changes |= product < flips_below_;
      extremes.any_nan |= std::isnan(product);
      const Value o_size = Floor(std::abs(o));
      const Value p_size = Floor(std::abs(p));
      Value r = Format::Round(o_size / p_size);
      if (std::isnan(r)) r = 1;
      if (std::isinf(r)) r = Format::kLargest;
      const auto ratio = static_cast<double>(r);
      extremes.Include(ratio, [&](double) { return first + i; });
      const double apart = r >= 1 ? r : std::min(1 / r, Format::kLargest);
      counts_.exceeding_count += apart > rules_.threshold ? 1 : 0;
      const bool o_finite = std::isfinite(o);
      const bool p_finite = std::isfinite(p);
      counts_.new_nonfinite_count += o_finite && !p_finite ? 1 : 0;
      counts_.lost_nonfinite_count += !o_finite && p_finite ? 1 : 0;
      if (o_finite && p_finite) {
        extremes.sum += apart;
        ++extremes.summed;
      }
    }
  }

  // NaN stays NaN.
  Value Floor(Value size) const { return size < bound_ ? bound_ : size; }

  const RatioRules& rules_;
  const bool details_;
  const Value bound_;
  const double flips_below_;
  RatioResult& counts_;
};

// The same by quotients; see RatioRules.
template <typename Format>
class QuotientWalk {
 public:
  using Value = typename Format::Value;

  QuotientWalk(const RatioRules& rules, double bound, RatioResult& result)
      : rules_(rules), bound_(Format::Round(static_cast<Value>(bound))), result_(result) {}

  void Add(std::span<const Value> original, std::span<const Value> perturbed, size_t first) {
    for (size_t i = 0; i < original.size(); ++i) {
      const Value o = Format::Round(original[i]);
      const Value p = perturbed[i];
      const double o_over_p = Quotient(o, p, over_perturbed_);
      const double p_over_o = Quotient(p, o, over_original_);
      negative_ |= o_over_p < 0;
      const double apart = std::max(std::abs(o_over_p), std::abs(p_over_o));
      if (apart > largest_) {
        largest_ = apart;
        result_.worst_index = first + i;
      }
      result_.exceeding_count += apart > rules_.threshold || o_over_p < 0 ? 1 : 0;
      const bool o_finite = std::isfinite(o);
      const bool p_finite = std::isfinite(p);
      result_.new_nonfinite_count += o_finite && !p_finite ? 1 : 0;
      result_.lost_nonfinite_count += !o_finite && p_finite ? 1 : 0;
      if (o_finite && p_finite) {
        sum_ += apart;
        ++summed_;
      }
    }
  }

  void Finish() {
    result_.sign_changes = negative_;
    result_.mean_ratio = summed_ == 0 ? 1 : sum_ / static_cast<double>(summed_);
    if (negative_) {
      result_.ratio = kNegativeQuotient;
    } else if (summed_ != 0 || largest_ != 0) {
      result_.ratio =
          std::max(over_perturbed_.Largest(rules_.compat), over_original_.Largest(rules_.compat));
    }
    if constexpr (std::is_same_v<Value, double>) {
      result_.ratio = static_cast<float>(result_.ratio);
    }
  }

 private:
  struct Side {
    double largest = -std::numeric_limits<double>::infinity();
    bool any_infinite = false;

    double Largest(bool compat) const {
      return (compat && any_infinite) || std::isinf(largest) ? 1 : largest;
    }
  };

  double Quotient(Value over, Value under, Side& side) const {
    if (!(std::abs(under) > bound_)) {
      side.largest = std::max(side.largest, 1.0);
      return 1;
    }
    const auto quotient = static_cast<double>(Format::Round(over / under));
    if (!std::isfinite(quotient)) {
      side.any_infinite |= std::isinf(quotient);
      return 1;
    }
    side.largest = std::max(side.largest, quotient);
    return quotient;
  }

  const RatioRules& rules_;
  const Value bound_;
  RatioResult& result_;
  Side over_perturbed_;
  Side over_original_;
  bool negative_ = false;
  double largest_ = 0;
  double sum_ = 0;
  uint64_t summed_ = 0;
};

size_t ChunkCount(const TensorView& tensor) {
  const double mebibytes = static_cast<double>(tensor.size_bytes()) / kMebibyte;
  if (tensor.shape.empty() || mebibytes < 1) return 1;
  const int power = static_cast<int>(std::log2(mebibytes)) - kMebibytesOfChunk;
  return power <= 0 ? 1 : std::min(kMostChunks, size_t{1} << std::min(power, 7));
}

template <typename Format>
RatioResult CompareQuotients(const TensorView& original, const TensorView& perturbed, double bound,
                             const RatioRules& rules) {
  using Run = std::span<const typename Format::Value>;
  RatioResult result;
  QuotientWalk<Format> walk(rules, bound, result);
  kernels::ForEachRun<typename Format::Value>(
      original, perturbed, [&](Run o, Run p, size_t first) { walk.Add(o, p, first); });
  walk.Finish();
  return result;
}

template <typename Format>
RatioResult CompareMagnitudes(const TensorView& original, const TensorView& perturbed, double bound,
                              const RatioRules& rules, bool details) {
  using Run = std::span<const typename Format::Value>;
  RatioResult result;
  RatioWalk<Format> walk(rules, bound, details, result);
  const auto count = static_cast<size_t>(original.element_count());
  const size_t chunks = rules.compat ? ChunkCount(original) : 1;
  const size_t chunk_elements = std::max<size_t>((count + chunks - 1) / chunks, 1);
  double sum = 0;
  uint64_t summed = 0;
  for (size_t begin = 0; begin < count && !result.sign_changes; begin += chunk_elements) {
    Extremes extremes;
    kernels::ForEachRun<typename Format::Value>(
        original, perturbed, begin, std::min(count, begin + chunk_elements),
        [&](Run o, Run p, size_t first) { walk.Add(o, p, first, extremes); });
    std::tie(result.ratio, result.worst_index) = extremes.Worst();
    result.sign_changes = extremes.sign_changes && !(rules.compat && extremes.any_nan);
    sum += extremes.sum;
    summed += extremes.summed;
  }
  if (!details) {
    result.exceeding_count = 0;  // those that were taken one by one
  } else if (summed != 0) {
    result.mean_ratio = sum / static_cast<double>(summed);
  }
  return result;
}

template <typename Format>
RatioResult Compare(const TensorView& original, const TensorView& perturbed, double bound,
                    const RatioRules& rules) {
  if (rules.quotients) return CompareQuotients<Format>(original, perturbed, bound, rules);
  // Nearly all results are consistent, and then the number of inconsistent elements is not needed.
  if (const RatioResult result =
          CompareMagnitudes<Format>(original, perturbed, bound, rules, false);
      result.consistent(rules.threshold)) {
    return result;
  }
  return CompareMagnitudes<Format>(original, perturbed, bound, rules, true);
}

}  // namespace

double DefaultThreshold(DType original) {
  switch (original) {
    case DType::kFloat16:
      return 1.002;
    case DType::kBFloat16:
      return 1.004;
    default:
      return 1.0002;
  }
}

Result<RatioResult> CompareRatios(const TensorView& original, const TensorView& perturbed,
                                  const RatioRules& rules) {
  if (original.element_count() != perturbed.element_count()) {
    return MismatchError("both results of an operator have the same number of elements, not " +
                         ShapeText(original.shape) + " and " + ShapeText(perturbed.shape));
  }
  const double bound = rules.backward
                           ? kBackwardBound
                           : std::sqrt(SmallestNoise(perturbed.dtype).value_or(kOtherNoise));
  switch (perturbed.dtype) {
    case DType::kFloat64:
      return Compare<Plain<double>>(original, perturbed, bound, rules);
    case DType::kFloat16:
      return Compare<Half>(original, perturbed, bound, rules);
    case DType::kBFloat16:
      return Compare<Brain>(original, perturbed, bound, rules);
    default:
      return Compare<Plain<float>>(original, perturbed, bound, rules);
  }
}

}  // namespace msprobe::perturb
