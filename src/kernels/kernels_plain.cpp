// The implementation every other one is held against; it also finishes the runs the vector loops
// leave over.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/kernels/coded_steps.h"

namespace msprobe::kernels::internal {
namespace {

template <class Element>
void Stats(const std::byte* data, size_t count, StatsLanes& lanes) {
  for (size_t i = 0; i < count; ++i) {
    StatsStep(Element::Load(data + i * Element::kBytes), i % kStatsLanes, lanes);
  }
}

template <class Element, bool kAll>
void SmallStats(const std::byte* data, size_t count, const SmallRule& rule, StatsLanes& lanes,
                SmallLanes& small) {
  for (size_t i = 0; i < count; ++i) {
    SmallStatsStep<kAll>(Element::Load(data + i * Element::kBytes), i % kStatsLanes, rule, lanes,
                         small);
  }
}

template <class Element>
void NonFinite(const std::byte* data, size_t count, NonFiniteCounts& counts) {
  for (size_t i = 0; i < count; ++i) {
    NonFiniteStep(Element::Load(data + i * Element::kBytes), counts);
  }
}

template <class Element, class Relative>
void Compare(const std::byte* npu, const std::byte* bench, size_t count, const RelativeRule& rule,
             CompareLanes& lanes) {
  for (size_t i = 0; i < count; ++i) {
    CompareStep<Relative>(Element::Load(npu + i * Element::kBytes),
                          Element::Load(bench + i * Element::kBytes), i % kCompareLanes, rule,
                          lanes);
  }
}

void WidenFloat16(const std::byte* data, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = Float16Element::Load(data + i * Float16Element::kBytes);
  }
}

void WidenBFloat16(const std::byte* data, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = BFloat16Element::Load(data + i * BFloat16Element::kBytes);
  }
}

template <typename Number>
Number Unrounded(Number value) {
  return value;
}

template <typename Number, Number (*kRound)(Number)>
bool Ratios(const Number* original, const Number* perturbed, size_t count, const RatioRule& rule,
            Number* ratios, RatioLanes& lanes) {
  for (size_t i = 0; i < count; ++i) {
    const Number o = kRound(original[i]);
    if (!std::isfinite(original[i]) || !std::isfinite(o) || !std::isfinite(perturbed[i]) ||
        std::signbit(o) != std::signbit(perturbed[i])) {
      return false;
    }
  }
  const auto floor = static_cast<Number>(rule.floor);
  const auto most = static_cast<Number>(rule.most);
  for (size_t i = 0; i < count; ++i) {
    const Number o = std::max(std::abs(kRound(original[i])), floor);
    const Number p = std::max(std::abs(perturbed[i]), floor);
    ratios[i] = std::min(kRound(o / p), most);
    const double ratio{ratios[i]};
    lanes.largest = std::max(lanes.largest, ratio);
    lanes.smallest = std::min(lanes.smallest, ratio);
    if (rule.details) {
      const double apart{std::max(ratios[i], std::min(1 / ratios[i], most))};
      lanes.sum[i % kRatioLanes] += apart;
      lanes.exceeding += apart > rule.threshold ? 1 : 0;
    }
  }
  return true;
}

void Bounds(const double* found, const double* wanted, const double* errors, size_t count,
            const BoundRule& rule, BoundLanes& lanes) {
  for (size_t i = 0; i < count; ++i) {
    const double error = errors[i] * rule.slack;
    const double off = std::fabs(found[i] - wanted[i]);
    const double bound = error + (rule.unit * (std::fabs(wanted[i]) + error) + rule.tiny);
    const double ratio = off / bound;
    lanes.not_finite += (off - off) + (bound - bound);
    lanes.reaching += ratio >= rule.asked ? 1 : 0;
    lanes.largest = ratio > lanes.largest ? ratio : lanes.largest;
  }
}

constexpr size_t kTileRows = 4;
constexpr size_t kTileColumns = 4;

void AddProduct(size_t depth, const double* a, const double* b, double* c, size_t c_stride,
                bool from_zero) {
  for (size_t i = 0; from_zero && i < kTileRows; ++i) {
    std::fill_n(c + i * c_stride, kTileColumns, 0.0);
  }
  for (size_t p = 0; p < depth; ++p) {
    for (size_t i = 0; i < kTileRows; ++i) {
      for (size_t j = 0; j < kTileColumns; ++j) {
        c[i * c_stride + j] += a[p * kTileRows + i] * b[p * kTileColumns + j];
      }
    }
  }
}

constexpr KernelTable kPlainTable = {
    .name = "plain",
    .stats_float32 = Stats<Float32Element>,
    .stats_float16 = Stats<Float16Element>,
    .stats_bfloat16 = Stats<BFloat16Element>,
    .stats_float64 = Stats<Float64Element>,
    .near_float32 = SmallStats<Float32Element, false>,
    .near_float16 = SmallStats<Float16Element, false>,
    .near_bfloat16 = SmallStats<BFloat16Element, false>,
    .near_float64 = SmallStats<Float64Element, false>,
    .small_float32 = SmallStats<Float32Element, true>,
    .small_float16 = SmallStats<Float16Element, true>,
    .small_bfloat16 = SmallStats<BFloat16Element, true>,
    .small_float64 = SmallStats<Float64Element, true>,
    .non_finite_float32 = NonFinite<Float32Element>,
    .non_finite_float16 = NonFinite<Float16Element>,
    .non_finite_bfloat16 = NonFinite<BFloat16Element>,
    .non_finite_float64 = NonFinite<Float64Element>,
    .compare_float32 = Compare<Float32Element, Float32Relative>,
    .compare_bfloat16 = Compare<BFloat16Element, Float32Relative>,
    .compare_float16 = Compare<Float16Element, Float16Relative>,
    .compare_widened_float16 = Compare<Float32Element, Float16Relative>,
    .compare_float64 = Compare<Float64Element, Float64Relative>,
    .bounded_float32 = BoundedSteps<Float32Element, Float32Element>,
    .bounded_bfloat16_npu = BoundedSteps<BFloat16Element, Float32Element>,
    .bounded_bfloat16_bench = BoundedSteps<Float32Element, BFloat16Element>,
    .widen_float16 = WidenFloat16,
    .widen_bfloat16 = WidenBFloat16,
    .nibbles = NibbleSteps,
    .bytes = ByteSteps,
    .digest_float32 = DigestRun<Float32Element, Unrounded<float>>,
    .digest_bfloat16 = DigestRun<BFloat16Element, Unrounded<float>>,
    .digest_float16 = DigestRun<Float16Element, Unrounded<float>>,
    .digest_float32_as_bfloat16 = DigestRun<Float32Element, RoundToBFloat16>,
    .digest_float32_as_float16 = DigestRun<Float32Element, RoundToFloat16>,
    .ratios_float32 = Ratios<float, Unrounded<float>>,
    .ratios_bfloat16 = Ratios<float, RoundToBFloat16>,
    .ratios_float16 = Ratios<float, RoundToFloat16>,
    .ratios_float64 = Ratios<double, Unrounded<double>>,
    .bounds = Bounds,
    .product = {kTileRows, kTileColumns, AddProduct},
};

}  // namespace

const KernelTable& PlainTable() { return kPlainTable; }

}  // namespace msprobe::kernels::internal
