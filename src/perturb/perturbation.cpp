#include "src/perturb/perturbation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::perturb {
namespace {

// How the elements of a floating dtype lie in memory, and what arithmetic on them gives.
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

// Whether max |x| >= noise; a NaN makes the maximum NaN, which is not below.
template <typename Format>
bool ReachesNoise(std::span<std::byte> elements) {
  using Value = typename Format::Value;
  const Value noise =
      Format::Load(Format::Store(static_cast<Value>(*SmallestNoise(Format::kDType))));
  bool reaches = false;
  ForEachElement<Format>(elements, [&](typename Format::Bits bits) {
    reaches = reaches || !(std::abs(Format::Load(bits)) < noise);
    return bits;
  });
  return reaches;
}

template <typename Format>
bool AddNoise(std::span<std::byte> elements) {
  using Value = typename Format::Value;
  if (!ReachesNoise<Format>(elements)) return false;
  const double exact = *SmallestNoise(Format::kDType);
  const Value noise = Format::Load(Format::Store(static_cast<Value>(exact)));
  const Value bound = Format::Load(Format::Store(static_cast<Value>(std::sqrt(exact))));
  ForEachElement<Format>(elements, [&](typename Format::Bits bits) {
    const Value value = Format::Load(bits);
    return std::abs(value) > bound ? Format::Store(value + noise) : bits;
  });
  return true;
}

template <typename Format>
bool FlipLowestBits(std::span<std::byte> elements) {
  using Bits = typename Format::Bits;
  if (!ReachesNoise<Format>(elements)) return false;
  ForEachElement<Format>(elements, [](Bits bits) {
    const Bits magnitude = bits & static_cast<Bits>(~kSign<Format>);
    const bool is_nan = magnitude > Format::kExponent;
    return magnitude > Format::kSmallestNormal && !is_nan ? static_cast<Bits>(bits ^ 1U) : bits;
  });
  return true;
}

template <typename Format>
bool AddUlps(std::span<std::byte> elements, uint32_t ulps) {
  using Bits = typename Format::Bits;
  bool any = false;
  ForEachElement<Format>(elements, [&](Bits bits) {
    const Bits magnitude = bits & static_cast<Bits>(~kSign<Format>);
    // Neither zeros and subnormals, nor what would become infinite.
    if (magnitude < Format::kSmallestNormal || magnitude >= Format::kExponent ||
        static_cast<uint64_t>(Format::kExponent) - magnitude <= ulps) {
      return bits;
    }
    any = true;
    return static_cast<Bits>(bits + ulps);
  });
  return any;
}

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): bits of a counter, each as good as a coin.
uint64_t Mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

template <typename Format>
bool AddRandomUnits(std::span<std::byte> elements, uint32_t seed) {
  using Bits = typename Format::Bits;
  bool any = false;
  uint64_t counter = static_cast<uint64_t>(seed) << 32U;
  ForEachElement<Format>(elements, [&](Bits bits) {
    const Bits magnitude = bits & static_cast<Bits>(~kSign<Format>);
    const uint64_t lot = Mixed(counter++) % 3;
    // Neither zeros and subnormals, nor what would become infinite or subnormal.
    if (magnitude <= Format::kSmallestNormal || magnitude >= Format::kExponent - 1U) return bits;
    any = true;
    return static_cast<Bits>(bits + lot - 1U);
  });
  return any;
}

bool SwapEnds(const TensorView& input, std::span<std::byte> elements) {
  const Shape& shape = input.shape;
  if (shape.empty() || shape[0] < 1) return false;
  if (shape.size() == 1 ? shape[0] < 2 : shape[1] < 1 || (shape[0] < 2 && shape[1] < 2)) {
    return false;
  }
  size_t part = DTypeSize(input.dtype);
  for (size_t axis = 2; axis < shape.size(); ++axis) part *= static_cast<size_t>(shape[axis]);
  std::swap_ranges(elements.begin(), elements.begin() + static_cast<ptrdiff_t>(part),
                   elements.end() - static_cast<ptrdiff_t>(part));
  return true;
}

template <typename Format>
bool Change(const TensorView& input, Mode mode, std::span<std::byte> elements, uint32_t ulps) {
  switch (mode) {
    case Mode::kAddNoise:
      return AddNoise<Format>(elements);
    case Mode::kBitNoise:
      return FlipLowestBits<Format>(elements);
    case Mode::kChangeValue:
      return SwapEnds(input, elements);
    case Mode::kUlpNoise:
      return AddUlps<Format>(elements, ulps);
    case Mode::kRandomNoise:
      return AddRandomUnits<Format>(elements, ulps);
    case Mode::kNoChange:
      return true;
    case Mode::kImprovePrecision:
      break;
  }
  return false;
}

bool ChangeElements(const TensorView& input, Mode mode, std::span<std::byte> elements,
                    uint32_t ulps) {
  switch (input.dtype) {
    case DType::kFloat16:
      return Change<Float16>(input, mode, elements, ulps);
    case DType::kBFloat16:
      return Change<BFloat16>(input, mode, elements, ulps);
    case DType::kFloat32:
      return Change<Float32>(input, mode, elements, ulps);
    case DType::kFloat64:
      return Change<Float64>(input, mode, elements, ulps);
    default:
      return false;
  }
}

}  // namespace

std::optional<double> SmallestNoise(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 1e-4;
    case DType::kFloat16:
      return 1e-6;
    case DType::kFloat32:
      return 1e-8;
    case DType::kFloat64:
      return 1e-16;
    default:
      return std::nullopt;
  }
}

DType PerturbedDType(DType dtype, Mode mode) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return mode == Mode::kImprovePrecision && is_half ? DType::kFloat32 : dtype;
}

Result<bool> Perturb(const TensorView& input, Mode mode, std::span<std::byte> out, uint32_t ulps) {
  const DType dtype = PerturbedDType(input.dtype, mode);
  const auto count = static_cast<size_t>(input.element_count());
  if (out.size() != count * DTypeSize(dtype)) {
    return UsageError("the changed tensor has another size than the one to change");
  }
  if (ulps == 0) return UsageError("noise is at least one unit in the last place");
  std::vector<std::byte> scratch;
  const bool widens = dtype != input.dtype;
  tensor::ForEachBlock(input, tensor::kCopyBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t first) {
                         std::byte* to = out.data() + first * DTypeSize(dtype);
                         if (!widens) {
                           std::memcpy(to, block.data(), block.size());
                           return;
                         }
                         float values[tensor::kCopyBlockElements];
                         const size_t elements = block.size() / DTypeSize(input.dtype);
                         kernels::WidenToFloat(input.dtype, block, std::span(values, elements));
                         std::memcpy(to, values, elements * sizeof(float));
                       });
  if (mode == Mode::kImprovePrecision) return widens;
  return count != 0 && ChangeElements(input, mode, out, ulps);
}

}  // namespace msprobe::perturb
