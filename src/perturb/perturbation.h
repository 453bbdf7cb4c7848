// Small changes of an operator's input that a stable operator hardly answers to.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/tensor/float_bits.h"

namespace msprobe::perturb {

// How the elements of floating dtypes lie in memory, and a walk that changes
// them.

// The stored form of a number, and the results of arithmetic on it.
struct Float16 {
  using Bits = uint16_t;
  using Value = float;
  static constexpr DType kDType = DType::kFloat16;
  static constexpr Bits kExponent = 0x7C00;
  static constexpr Bits kSmallestNormal = 0x0400;
  static Value Load(Bits bits) { return tensor::Float16ToFloat(bits); }
  static Bits Store(Value value) { return tensor::FloatToFloat16(value); }
};
struct BFloat16 {
  using Bits = uint16_t;
  using Value = float;
  static constexpr DType kDType = DType::kBFloat16;
  static constexpr Bits kExponent = 0x7F80;
  static constexpr Bits kSmallestNormal = 0x0080;
  static Value Load(Bits bits) { return tensor::BFloat16ToFloat(bits); }
  static Bits Store(Value value) { return tensor::FloatToBFloat16(value); }
};
struct Float32 {
  using Bits = uint32_t;
  using Value = float;
  static constexpr DType kDType = DType::kFloat32;
  static constexpr Bits kExponent = 0x7F800000;
  static constexpr Bits kSmallestNormal = 0x00800000;
  static Value Load(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits Store(Value value) { return std::bit_cast<Bits>(value); }
};
struct Float64 {
  using Bits = uint64_t;
  using Value = double;
  static constexpr DType kDType = DType::kFloat64;
  static constexpr Bits kExponent = 0x7FF0000000000000;
  static constexpr Bits kSmallestNormal = 0x0010000000000000;
  static Value Load(Bits bits) { return std::bit_cast<double>(bits); }
  static Bits Store(Value value) { return std::bit_cast<Bits>(value); }
};

template <typename Format>
constexpr typename Format::Bits kSign = static_cast<typename Format::Bits>(
    typename Format::Bits{1} << (8 * sizeof(typename Format::Bits) - 1));

// Replaces every element of `elements` by change(bits).
template <typename Format, typename Change>
void ForEachElement(std::span<std::byte> elements, Change change) {
  using Bits = typename Format::Bits;
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof(Bits));
    bits = change(bits);
    std::memcpy(elements.data() + at, &bits, sizeof(Bits));
  }
}

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): bits of a counter, each as good as a coin.
inline uint64_t Mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

// Values rounded up or down at random in the last place: what computations with results that were
// rounded already would see if the rounding had gone otherwise.

// A result x of a computation stands for a real number that is one unit in the last place away at
// most (faithful rounding). Taken as x + u with u uniform in (-1, 1) units and rounded
// stochastically, that is to either neighbour with a probability by how near it is, it becomes the
// number above x with probability E[max(u, 0)] = 1/4, the number below with 1/4, and stays x with
// 1/2. Its variance is half a squared unit. Stochastic rounding: M. Croci, M. Fasi, N. J. Higham,
// T. Mary, M. Mikaitis, "Stochastic rounding: implementation, error analysis and applications",
// Royal Society Open Science 9 (2022), section 2; values perturbed in their last place: D. S.
// Parker, "Monte Carlo Arithmetic", UCLA CSD-970002 (1997).
//
// In place. `first`: the index of the first element in its tensor: with the seed it decides the
// lots, which are the same on every machine and for any division into blocks. Zeros, subnormal
// numbers, NaN, infinities and what would become one stay as they are. False: none is left that may
// change.
bool RoundStochastically(DType dtype, std::span<std::byte> elements, uint64_t seed, uint64_t first);

enum class Mode : uint8_t {
  kAddNoise,            // where(|x| > sqrt(p), x + p, x), p = SmallestNoise of the dtype
  kBitNoise,            // the lowest bit of the mantissa flipped; infinities become NaN by this
  kChangeValue,         // x[0] and x[-1] swapped; with more axes x[0][0] and x[-1][-1]
  kNoChange,            // the same values
  kImprovePrecision,    // float16 and bfloat16 as float32
  kUlpNoise,            // normal numbers away from zero by a number of units in the last place
  kRandomNoise,         // normal numbers one unit up, one down or not at all, at random
  kStochasticRounding,  // normal numbers as src/perturb/perturbation.h says
};

// bfloat16 1e-4, float16 1e-6, float32 1e-8, float64 1e-16; nothing for other dtypes.
std::optional<double> SmallestNoise(DType dtype);

// The dtype of what Perturb writes.
DType PerturbedDType(DType dtype, Mode mode);

// Writes the changed tensor to `out`, row-major, of PerturbedDType and the shape of `input`. False:
// there was nothing to change (not floating, empty, all values below the noise, nothing to swap, no
// wider type), and `out` holds the values as they are. `ulps`: of kUlpNoise, from 1
// on; of kRandomNoise and kStochasticRounding the seed, from 1 on: the same one gives the same
// noise on every machine.
Result<bool> Perturb(const TensorView& input, Mode mode, std::span<std::byte> out,
                     uint32_t ulps = 1);

}  // namespace msprobe::perturb
