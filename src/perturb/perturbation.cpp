#include "src/perturb/perturbation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::perturb {
namespace {

// work(Format()), or false of what is not floating.
template <typename Work>
bool WithFormat(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kFloat16:
      return work(Float16());
    case DType::kBFloat16:
      return work(BFloat16());
    case DType::kFloat32:
      return work(Float32());
    case DType::kFloat64:
      return work(Float64());
    default:
      return false;
  }
}

template <typename Format>
bool Round(std::span<std::byte> elements, uint64_t seed, uint64_t first) {
  using Bits = typename Format::Bits;
  bool any = false;
  uint64_t counter = Mixed(seed) + first;
  ForEachElement<Format>(elements, [&](Bits bits) {
    const Bits magnitude = bits & static_cast<Bits>(~kSign<Format>);
    const uint64_t lot = Mixed(counter++) & 3U;
    if (magnitude <= Format::kSmallestNormal || magnitude >= Format::kExponent - 1U) return bits;
    any = true;
    // 0: one unit less; 1: one more; 2 and 3: none.
    return static_cast<Bits>(lot == 0 ? bits - 1U : lot == 1 ? bits + 1U : bits);
  });
  return any;
}

}  // namespace

bool RoundStochastically(DType dtype, std::span<std::byte> elements, uint64_t seed,
                         uint64_t first) {
  return WithFormat(dtype,
                    [&](auto format) { return Round<decltype(format)>(elements, seed, first); });
}

namespace {

// The numbers that lie in an aligned memory of the dtypes whose arithmetic is their own; null for
// others.
template <typename Format>
typename Format::Value* NumbersAt(std::span<std::byte> elements) {
  using Value = typename Format::Value;
  const bool is_own = sizeof(Value) == sizeof(typename Format::Bits);
  return is_own && reinterpret_cast<uintptr_t>(elements.data()) % alignof(Value) == 0
             ? reinterpret_cast<Value*>(elements.data())
             : nullptr;
}

// Whether max |x| >= noise; a NaN makes the maximum NaN, which is not below.
template <typename Format>
bool ReachesNoise(std::span<const std::byte> elements) {
  using Value = typename Format::Value;
  const Value noise =
      Format::Load(Format::Store(static_cast<Value>(*SmallestNoise(Format::kDType))));
  using Bits = typename Format::Bits;
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof(Bits));
    if (!(std::abs(Format::Load(bits)) < noise)) {
      return true;
    }
  }
  return false;
}

template <typename Format>
void AddNoise(std::span<std::byte> elements) {
  using Value = typename Format::Value;
  const double exact = *SmallestNoise(Format::kDType);
  const Value noise = Format::Load(Format::Store(static_cast<Value>(exact)));
  const Value bound = Format::Load(Format::Store(static_cast<Value>(std::sqrt(exact))));
  if (Value* const numbers = NumbersAt<Format>(elements)) {
    const size_t count = elements.size() / sizeof(Value);
    for (size_t i = 0; i < count; ++i) {
      // Added to all, and chosen by a mask, so that it can be done for several at once.
      using Bits = typename Format::Bits;
      const Value value = numbers[i];
      const Bits chosen = std::abs(value) > bound ? static_cast<Bits>(~Bits{0}) : Bits{0};
      numbers[i] = Format::Load(static_cast<Bits>((Format::Store(value + noise) & chosen) |
                                                  (Format::Store(value) & ~chosen)));
    }
    return;
  }
  ForEachElement<Format>(elements, [&](typename Format::Bits bits) {
    const Value value = Format::Load(bits);
    return std::abs(value) > bound ? Format::Store(value + noise) : bits;
  });
}

template <typename Format>
void FlipLowestBits(std::span<std::byte> elements) {
  using Bits = typename Format::Bits;
  ForEachElement<Format>(elements, [](Bits bits) {
    const Bits magnitude = bits & static_cast<Bits>(~kSign<Format>);
    const bool is_nan = magnitude > Format::kExponent;
    return magnitude > Format::kSmallestNormal && !is_nan ? static_cast<Bits>(bits ^ 1U) : bits;
  });
}

// A copy whose elements are changed block by block, while they are in a cache; none of them before
// one reaches the noise. False: none does.
template <typename Format>
bool CopyWithNoise(const TensorView& input, Mode mode, std::span<std::byte> out) {
  size_t copied = 0;
  size_t changed = 0;
  bool reached = false;
  std::vector<std::byte> scratch;
  tensor::ForEachBlock(
      input, tensor::kCopyBlockElements, scratch, [&](std::span<const std::byte> block, size_t) {
        std::memcpy(out.data() + copied, block.data(), block.size());
        copied += block.size();
        reached = reached || ReachesNoise<Format>(block);
        if (reached) {
          const std::span<std::byte> elements = out.subspan(changed, copied - changed);
          if (mode == Mode::kAddNoise) {
            AddNoise<Format>(elements);
          } else {
            FlipLowestBits<Format>(elements);
          }
          changed = copied;
        }
      });
  return reached;
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
    case Mode::kChangeValue:
      return SwapEnds(input, elements);
    case Mode::kUlpNoise:
      return AddUlps<Format>(elements, ulps);
    case Mode::kRandomNoise:
      return AddRandomUnits<Format>(elements, ulps);
    case Mode::kStochasticRounding:
      return RoundStochastically(Format::kDType, elements, ulps, 0);
    case Mode::kNoChange:
      return true;
    case Mode::kAddNoise:
    case Mode::kBitNoise:
    case Mode::kImprovePrecision:
      break;  // done while copying
  }
  return false;
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
  if ((mode == Mode::kAddNoise || mode == Mode::kBitNoise) && SmallestNoise(dtype)) {
    return WithFormat(
        dtype, [&](auto format) { return CopyWithNoise<decltype(format)>(input, mode, out); });
  }
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
  return count != 0 && WithFormat(dtype, [&](auto format) {
           return Change<decltype(format)>(input, mode, out, ulps);
         });
}

}  // namespace msprobe::perturb
