// Inside of the room: how the elements of floating dtypes lie in memory, and a walk that changes
// them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "msprobe/dtype.h"

#include "src/tensor/float_bits.h"

namespace msprobe::perturb {

// What lies in memory, and what arithmetic on it gives.
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

}  // namespace msprobe::perturb
