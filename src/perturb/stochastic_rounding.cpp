#include "src/perturb/stochastic_rounding.h"

#include "src/perturb/float_formats.h"

namespace msprobe::perturb {
namespace {

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
  switch (dtype) {
    case DType::kFloat16:
      return Round<Float16>(elements, seed, first);
    case DType::kBFloat16:
      return Round<BFloat16>(elements, seed, first);
    case DType::kFloat32:
      return Round<Float32>(elements, seed, first);
    case DType::kFloat64:
      return Round<Float64>(elements, seed, first);
    default:
      return false;
  }
}

}  // namespace msprobe::perturb
