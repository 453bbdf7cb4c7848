// The steps for one element: the plain implementation, and the last few elements of every run.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/kernels/kernel_table.h"
#include "src/tensor/float_bits.h"

namespace msprobe::kernels::internal {

// Readers of one element at any alignment.
struct Float32Element {
  using Value = float;
  static constexpr size_t kBytes = 4;
  static float Load(const std::byte* data) {
    float value;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
};
struct Float64Element {
  using Value = double;
  static constexpr size_t kBytes = 8;
  static double Load(const std::byte* data) {
    double value;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
};
struct BFloat16Element {
  using Value = float;
  static constexpr size_t kBytes = 2;
  static float Load(const std::byte* data) {
    uint16_t bits;
    std::memcpy(&bits, data, sizeof(bits));
    return tensor::BFloat16ToFloat(bits);
  }
};
struct Float16Element {
  using Value = float;
  static constexpr size_t kBytes = 2;
  static float Load(const std::byte* data) {
    uint16_t bits;
    std::memcpy(&bits, data, sizeof(bits));
    return tensor::Float16ToFloat(bits);
  }
};

// The float32 nearest to `value` among the float16 values: float16 arithmetic is float32 arithmetic
// rounded once more.
inline float RoundToFloat16(float value) {
  return tensor::Float16ToFloat(tensor::FloatToFloat16(value));
}

inline float RoundToBFloat16(float value) {
  return tensor::BFloat16ToFloat(tensor::FloatToBFloat16(value));
}

// The bits that a float32 is digested by: NaN has many, of which casts keep what they like.
inline uint32_t DigestBits(uint32_t bits) {
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC00000U : bits;
}
// What is multiplied with a key: the same information, and the lowest bits tell apart what differs
// in the upper half alone, as all that was once 16 bits wide does.
inline uint32_t DigestWord(uint32_t bits) { return bits ^ (bits >> 16U); }

template <class Element, float (*kRound)(float)>
inline void DigestRun(const std::byte* data, size_t count, const DigestKeys& keys, size_t place,
                      uint64_t* sums) {
  for (size_t i = 0; i < count; ++i) {
    const float value = kRound(Element::Load(data + i * Element::kBytes));
    const uint64_t word = DigestWord(DigestBits(std::bit_cast<uint32_t>(value)));
    sums[0] += keys.a[0][place + i] * word;
    sums[1] += keys.b[0][place + i] * word;
  }
}

inline void StatsStep(double value, size_t lane, StatsLanes& lanes) {
  lanes.sum[lane] += value;
  lanes.square_sum[lane] += value * value;
  lanes.max = value > lanes.max ? value : lanes.max;
  lanes.min = value < lanes.min ? value : lanes.min;
  lanes.zero_count += value == 0 ? 1U : 0U;
}

// `bits`: of the magnitude. NaN is larger than every number.
template <bool kAll, class Value>
inline void SmallStatsStep(Value value, size_t lane, const SmallRule& rule, StatsLanes& lanes,
                           SmallLanes& small) {
  using Bits = std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>;
  constexpr Bits kMagnitude = ~Bits{0} >> 1U;
  const Bits bits = std::bit_cast<Bits>(value) & kMagnitude;
  const double wide = value;
  lanes.sum[lane] += wide;
  lanes.square_sum[lane] += wide * wide;
  lanes.max = wide > lanes.max ? wide : lanes.max;
  lanes.min = wide < lanes.min ? wide : lanes.min;
  lanes.zero_count += bits < rule.zero_below_bits ? 1U : 0U;
  if constexpr (kAll) {
    small.subnormal_count += bits != 0 && bits < rule.normal_bits ? 1U : 0U;
    const double magnitude = std::bit_cast<Value>(bits);
    small.smallest_nonzero =
        bits != 0 && magnitude < small.smallest_nonzero ? magnitude : small.smallest_nonzero;
  }
}

inline void NonFiniteStep(double value, NonFiniteCounts& counts) {
  counts.nan_count += std::isnan(value) ? 1U : 0U;
  counts.positive_inf_count += std::isinf(value) && value > 0 ? 1U : 0U;
  counts.negative_inf_count += std::isinf(value) && value < 0 ? 1U : 0U;
  counts.max = value > counts.max ? value : counts.max;
  counts.min = value < counts.min ? value : counts.min;
}

// How |(n - b) / b| is computed, and the thresholds in that arithmetic: numpy rounds them to the
// array's type.
struct Float32Relative {
  using Value = float;
  static constexpr float kOneThousandth = 0.001F;
  static constexpr float kFiveThousandths = 0.005F;
  static float Error(float npu, float bench, const RelativeRule& rule) {
    if (bench == 0) {
      npu += static_cast<float>(rule.npu_epsilon);
      bench += static_cast<float>(rule.bench_epsilon);
    }
    return std::fabs((npu - bench) / bench);
  }
};
struct Float16Relative {
  using Value = float;
  static constexpr float kOneThousandth = 0x1.064p-10F;   // 0.001 in float16
  static constexpr float kFiveThousandths = 0x1.47cp-8F;  // 0.005 in float16
  static float Error(float npu, float bench, const RelativeRule& /*rule*/) {
    return std::fabs(RoundToFloat16(RoundToFloat16(npu - bench) / bench));
  }
};
struct Float64Relative {
  using Value = double;
  static constexpr double kOneThousandth = 0.001;
  static constexpr double kFiveThousandths = 0.005;
  static double Error(double npu, double bench, const RelativeRule& rule) {
    if (bench == 0) {
      npu += rule.npu_epsilon;
      bench += rule.bench_epsilon;
      if (rule.npu_is_float32) {
        npu = static_cast<double>(static_cast<float>(npu));
      }
    }
    return std::fabs((npu - bench) / bench);
  }
};

template <class Relative>
inline void CompareStep(typename Relative::Value npu, typename Relative::Value bench, size_t lane,
                        const RelativeRule& rule, CompareLanes& lanes) {
  const double n = npu;
  const double b = bench;
  const double difference = n - b;
  lanes.dot[lane] += n * b;
  lanes.npu_square_sum[lane] += n * n;
  lanes.bench_square_sum[lane] += b * b;
  lanes.difference_square_sum[lane] += difference * difference;
  const double absolute = std::fabs(difference);
  lanes.max_abs_error = absolute > lanes.max_abs_error ? absolute : lanes.max_abs_error;
  const auto relative = Relative::Error(npu, bench, rule);
  lanes.max_relative_error =
      relative > lanes.max_relative_error ? relative : lanes.max_relative_error;
  lanes.relative_error_nan = lanes.relative_error_nan || std::isnan(relative);
  lanes.below_one_thousandth_count += relative < Relative::kOneThousandth ? 1U : 0U;
  lanes.below_five_thousandths_count += relative < Relative::kFiveThousandths ? 1U : 0U;
  lanes.different_count += npu != bench ? 1U : 0U;
}

}  // namespace msprobe::kernels::internal
