// Small changes of an operator's input that a stable operator hardly answers to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

enum class Mode : uint8_t {
  kAddNoise,            // where(|x| > sqrt(p), x + p, x), p = SmallestNoise of the dtype
  kBitNoise,            // the lowest bit of the mantissa flipped; infinities become NaN by this
  kChangeValue,         // x[0] and x[-1] swapped; with more axes x[0][0] and x[-1][-1]
  kNoChange,            // the same values
  kImprovePrecision,    // float16 and bfloat16 as float32
  kUlpNoise,            // normal numbers away from zero by a number of units in the last place
  kRandomNoise,         // normal numbers one unit up, one down or not at all, by lot
  kStochasticRounding,  // normal numbers as src/perturb/stochastic_rounding.h says
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
