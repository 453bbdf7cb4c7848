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
                        const NibbleRule& rule, float* values, float* bounds) {
  float value_of[16];
  float bound_of[16];
  for (size_t code = 0; code < 16; ++code) {
    const float number = rule.numbers[code] - rule.zero;
    const float magnitude = std::fabs(number);
    const float more = std::min((magnitude + rule.added) * rule.relative, rule.most_steps);
    value_of[code] = number * rule.scale;
    bound_of[code] = rule.reach * (rule.steps[code] + more) + magnitude * rule.error;
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

// The bits of 8-bit floats.
struct E4M3Bits {
  static constexpr int kFraction = 3;
  static constexpr uint32_t kRaised = 120U << 23U;  // the difference of the exponents' biases
  static constexpr float kSmallestNormal = 0x1p-6F;
  static constexpr float kGap = 0x1p-3F;
  static constexpr uint32_t kLargest = 0x7E;
  static constexpr bool kHasInfinity = false;
};
struct E5M2Bits {
  static constexpr int kFraction = 2;
  static constexpr uint32_t kRaised = 112U << 23U;
  static constexpr float kSmallestNormal = 0x1p-14F;
  static constexpr float kGap = 0x1p-2F;
  static constexpr uint32_t kLargest = 0x7B;
  static constexpr bool kHasInfinity = true;
};

template <class Format>
void Float8Steps(const std::byte* codes, size_t count, const ByteRule& rule, float* values,
                 float* bounds) {
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
    values[i] = ((code & 0x80U) != 0 ? -number : number) * rule.scale;
    if (bounds != nullptr) {
      const auto power = std::bit_cast<float>(std::bit_cast<uint32_t>(raised) & 0x7F800000U);
      const float gap = std::max(power, Format::kSmallestNormal) * Format::kGap;
      const float steps = magnitude == Format::kLargest ? rule.end_steps : rule.inner_steps;
      bounds[i] = (special ? 0 : gap * steps + number * rule.relative) * rule.size;
    }
  }
}

inline void Int8Steps(const std::byte* codes, size_t count, const ByteRule& rule, float* values,
                      float* bounds) {
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(static_cast<int8_t>(codes[i]));
    values[i] = number * rule.scale;
    if (bounds != nullptr) {
      const float magnitude = std::fabs(number);
      const float steps = magnitude >= 127 ? rule.end_steps : rule.inner_steps;
      bounds[i] = (steps + std::min(magnitude * rule.relative, rule.most_steps)) * rule.size;
    }
  }
}

inline void ByteSteps(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule,
                      float* values, float* bounds) {
  switch (code) {
    case ByteCode::kFloat8E4M3:
      return Float8Steps<E4M3Bits>(codes, count, rule, values, bounds);
    case ByteCode::kFloat8E5M2:
      return Float8Steps<E5M2Bits>(codes, count, rule, values, bounds);
    case ByteCode::kInt8:
      return Int8Steps(codes, count, rule, values, bounds);
  }
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

// What an element must reach to change the largest errors: |n - b| >= absolute, or
// |n - b| >= max(relative * |b|, smallest), with `zero_divisor` for |b| where b is zero. Float32
// rounding keeps order, and `relative` is lowered by more than the rounding of both quotients.
// Errors of zeros are errors of n + epsilon, which is n but for a rounding that a quarter of
// epsilon bounds; and epsilons that differ make an error of two zeros.
struct BoundedLimits {
  float absolute = 0;
  float relative = 0;
  float zero_divisor = 0;
  float smallest = 0;
};

inline BoundedLimits LimitsOf(const CompareLanes& lanes, const RelativeRule& rule) {
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  constexpr double kMost = std::numeric_limits<float>::max();
  BoundedLimits limits;
  limits.absolute = std::max(static_cast<float>(lanes.max_abs_error), kSmallest);
  limits.relative = static_cast<float>(std::min(lanes.max_relative_error, kMost)) * (1 - 0x1p-20F);
  const bool same = rule.npu_epsilon == rule.bench_epsilon && rule.npu_epsilon > 0;
  limits.zero_divisor =
      same && lanes.max_relative_error >= 0.25 ? static_cast<float>(rule.bench_epsilon) : 0;
  limits.smallest = same ? kSmallest : 0;
  return limits;
}

inline void BoundedSteps(const float* npu, const float* bench, const float* bounds, size_t count,
                         const RelativeRule& rule, bool sums, BoundedLanes& lanes) {
  for (size_t i = 0; i < count; ++i) {
    const double n = npu[i];
    const double b = bench[i];
    const size_t lane = i % kCompareLanes;
    lanes.dot[lane] += n * b;
    lanes.npu_square_sum[lane] += n * n;
    lanes.bench_square_sum[lane] += b * b;
    lanes.difference_square_sum[lane] += (n - b) * (n - b);
    lanes.npu_sum[lane] += sums ? n : 0;
    lanes.bench_sum[lane] += sums ? b : 0;
    lanes.different_count += npu[i] != bench[i] ? 1U : 0U;
    lanes.beyond += std::fabs(npu[i] - bench[i]) <= bounds[i] ? 0U : 1U;
    LargestErrorsStep(npu[i], bench[i], rule, lanes);
  }
}

}  // namespace msprobe::kernels::internal
