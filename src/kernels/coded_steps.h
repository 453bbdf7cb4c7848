// Codes to numbers and bounded comparison for one element after the other: the plain
// implementation, the ends of runs, and what the vector loops share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/kernels/codes.h"
#include "src/kernels/scalar_steps.h"

namespace msprobe::kernels::internal {

inline void NibbleSteps(const std::byte* bytes, size_t count, NibbleOrder order,
                        const NibbleRule& rule, const NibbleScale& scale, float* values,
                        float* bounds) {
  float value_of[16];
  float bound_of[16];
  for (size_t code = 0; code < 16; ++code) {
    const float number = rule.numbers[code] - scale.zero;
    const float magnitude = std::fabs(number);
    const float more = std::min((magnitude + rule.added) * rule.relative, rule.most_steps);
    value_of[code] = number * scale.scale;
    bound_of[code] = scale.reach * (rule.steps[code] + more) + magnitude * scale.error;
  }
  const bool low_first = order == NibbleOrder::kLowFirst;
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned>(bytes[i / 2]);
    const unsigned code = (i % 2 == 0) == low_first ? byte & 15U : byte >> 4U;
    values[i] = value_of[code];
    if (bounds != nullptr) {
      bounds[i] = bound_of[code];
    }
  }
}

// The bits of 8-bit floats. Moved up by kShift they are those of a float16 of the same fraction,
// whose exponent has another bias: its value times kUnit is theirs.
struct E4M3Bits {
  static constexpr int kFraction = 3;
  static constexpr int kShift = 7;
  static constexpr float kUnit = 0x1p8F;
  static constexpr uint32_t kRaised = 120U << 23U;  // the difference of float32's exponent bias
  static constexpr float kSmallestNormal = 0x1p-6F;
  static constexpr float kGap = 0x1p-3F;
  static constexpr uint32_t kLargest = 0x7E;
  static constexpr float kLargestNumber = 448;
  static constexpr bool kHasInfinity = false;
};
struct E5M2Bits {
  static constexpr int kFraction = 2;
  static constexpr int kShift = 8;
  static constexpr float kUnit = 1;
  static constexpr uint32_t kRaised = 112U << 23U;
  static constexpr float kSmallestNormal = 0x1p-14F;
  static constexpr float kGap = 0x1p-2F;
  static constexpr uint32_t kLargest = 0x7B;
  static constexpr float kLargestNumber = 57344;
  static constexpr bool kHasInfinity = true;
};

// The bound of an 8-bit float is power * inner + |number| * relative, `power` being the power of
// two below its magnitude; `end` at the ends of the range.
struct Float8Bounds {
  float inner;
  float end;
  float relative;
};
template <class Format>
Float8Bounds BoundsOf(const ByteRule& rule, float scale) {
  const float size = std::fabs(scale);
  return {size * (Format::kGap * rule.inner_steps), size * (Format::kGap * rule.end_steps),
          size * rule.relative};
}

template <class Format>
void Float8Steps(const std::byte* codes, size_t count, const ByteRule& rule, float scale,
                 float* values, float* bounds) {
  const Float8Bounds bounds_of = BoundsOf<Format>(rule, scale);
  for (size_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint32_t>(codes[i]);
    const uint32_t magnitude = code & 0x7FU;
    const auto raised =
        std::bit_cast<float>((magnitude << (23U - Format::kFraction)) + Format::kRaised);
    float number =
        magnitude < 1U << Format::kFraction ? raised + (raised - Format::kSmallestNormal) : raised;
    const bool special = magnitude > Format::kLargest;
    if (special) {
      number = Format::kHasInfinity && magnitude == Format::kLargest + 1
                   ? std::numeric_limits<float>::infinity()
                   : std::numeric_limits<float>::quiet_NaN();
    }
    values[i] = ((code & 0x80U) != 0 ? -number : number) * scale;
    if (bounds != nullptr) {
      const auto power =
          std::max(std::bit_cast<float>(std::bit_cast<uint32_t>(raised) & 0x7F800000U),
                   Format::kSmallestNormal);
      const float steps = magnitude == Format::kLargest ? bounds_of.end : bounds_of.inner;
      bounds[i] = special ? 0 : power * steps + number * bounds_of.relative;
    }
  }
}

inline void Int8Steps(const std::byte* codes, size_t count, const ByteRule& rule, float scale,
                      float* values, float* bounds) {
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(static_cast<int8_t>(codes[i]));
    values[i] = number * scale;
    if (bounds != nullptr) {
      const float magnitude = std::fabs(number);
      const float steps = magnitude >= 127 ? rule.end_steps : rule.inner_steps;
      bounds[i] = (steps + std::min(magnitude * rule.relative, rule.most_steps)) * std::fabs(scale);
    }
  }
}

inline bool ByteSteps(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule,
                      float scale, float* values, float* bounds) {
  switch (code) {
    case ByteCode::kFloat8E4M3:
      Float8Steps<E4M3Bits>(codes, count, rule, scale, values, bounds);
      break;
    case ByteCode::kFloat8E5M2:
      Float8Steps<E5M2Bits>(codes, count, rule, scale, values, bounds);
      break;
    case ByteCode::kInt8:
      Int8Steps(codes, count, rule, scale, values, bounds);
      break;
  }
  return true;
}

inline void LargestErrorsStep(float npu, float bench, const RelativeRule& rule,
                              CompareLanes& lanes) {
  const double absolute = std::fabs(static_cast<double>(npu) - static_cast<double>(bench));
  lanes.max_abs_error = absolute > lanes.max_abs_error ? absolute : lanes.max_abs_error;
  const double relative{Float32Relative::Error(npu, bench, rule)};
  lanes.max_relative_error =
      relative > lanes.max_relative_error ? relative : lanes.max_relative_error;
  lanes.relative_error_nan = lanes.relative_error_nan || std::isnan(relative);
}

// What |n - b| must exceed to change the largest errors: `absolute`, or relative * |b| computed
// exactly, with `zero_divisor` for |b| where b is zero. Exactly, as codes of zero have an error of
// 1 each; loops that round the product take kBelowRounding of it. Errors of zeros are errors of n +
// epsilon, which is n but for a rounding that a quarter of epsilon bounds; and epsilons that differ
// make an error of two zeros.
struct BoundedLimits {
  float absolute = 0;
  float relative = 0;
  float zero_divisor = 0;
  bool zeros_agree = false;
};
inline constexpr float kBelowRounding = 1 - 0x1p-20F;

inline BoundedLimits LimitsOf(const CompareLanes& lanes, const RelativeRule& rule) {
  constexpr double kMost = std::numeric_limits<float>::max();
  BoundedLimits limits;
  limits.absolute = static_cast<float>(lanes.max_abs_error) * kBelowRounding;
  limits.relative = static_cast<float>(std::min(lanes.max_relative_error, kMost));
  limits.zeros_agree = rule.npu_epsilon == rule.bench_epsilon && rule.npu_epsilon > 0;
  limits.zero_divisor = limits.zeros_agree && lanes.max_relative_error >= 0.25
                            ? static_cast<float>(rule.bench_epsilon) * kBelowRounding
                            : 0;
  return limits;
}

template <class Npu, class Bench>
void BoundedSteps(const std::byte* npu, const std::byte* bench, const float* bounds, size_t count,
                  const RelativeRule& rule, bool sums, BoundedLanes& lanes) {
  for (size_t first = 0; first < count; first += kBoundedSumElements) {
    float dot[kBoundedLanes] = {};
    float npu_squares[kBoundedLanes] = {};
    float bench_squares[kBoundedLanes] = {};
    float difference_squares[kBoundedLanes] = {};
    for (size_t i = first; i < std::min(count, first + kBoundedSumElements); ++i) {
      const float n = Npu::Load(npu + i * Npu::kBytes);
      const float b = Bench::Load(bench + i * Bench::kBytes);
      const float apart = std::fabs(n - b);
      const size_t lane = i % kBoundedLanes;
      dot[lane] += n * b;
      npu_squares[lane] += n * n;
      bench_squares[lane] += b * b;
      difference_squares[lane] += apart * apart;
      lanes.npu_sum[i % kCompareLanes] += sums ? static_cast<double>(n) : 0;
      lanes.bench_sum[i % kCompareLanes] += sums ? static_cast<double>(b) : 0;
      lanes.different_count += n != b ? 1U : 0U;
      lanes.beyond += apart <= bounds[i] ? 0U : 1U;
      LargestErrorsStep(n, b, rule, lanes);
    }
    for (size_t lane = 0; lane < kBoundedLanes; ++lane) {
      lanes.dot[lane % kCompareLanes] += static_cast<double>(dot[lane]);
      lanes.npu_square_sum[lane % kCompareLanes] += static_cast<double>(npu_squares[lane]);
      lanes.bench_square_sum[lane % kCompareLanes] += static_cast<double>(bench_squares[lane]);
      lanes.difference_square_sum[lane % kCompareLanes] +=
          static_cast<double>(difference_squares[lane]);
    }
  }
}

}  // namespace msprobe::kernels::internal
