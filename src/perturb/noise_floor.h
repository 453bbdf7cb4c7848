// How much of an operator's result is noise: the same call several times, its inputs and outputs
// rounded by lot, its sums in another order.
#pragma once

#include <cstdint>
#include <span>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

inline constexpr double kNoiseConfidence = 0.95;

struct NoiseFloor {
  // Significant decimal digits of the mean of the results, at least these with probability 0.95:
  // log10(sqrt(N) |mean| / (t s)) with |.| the norm over all elements, s^2 = sum |x_k - mean|^2 /
  // (N - 1) and t of Student's distribution with N - 1 degrees of freedom. J. Vignes, "A stochastic
  // arithmetic for reliable scientific computation", Mathematics and Computers in Simulation 35
  // (1993), section 3; F. Jezequel, J.-M. Chesneaux, "CADNA: a library for estimating round-off
  // error propagation", Computer Physics Communications 178 (2008). From 0 to what the dtype holds.
  double digits = 0;
  // t s / |mean|: half the width of the interval that holds one result with probability 0.95.
  // Infinite where the mean is zero and s is not.
  double relative = 0;
  // Elements that are NaN or infinite in some of the results alone: then there are no digits. Those
  // that are so in all of them are left out.
  uint64_t nonfinite_count = 0;
};

// `results`: two or more of one floating dtype and as many elements each. Each is rounded by lot
// first (src/perturb/stochastic_rounding.h), with its own part of `seed`; nothing is written.
// Memory is that of a few blocks, sums are those of fixed blocks in order.
Result<NoiseFloor> MeasureNoiseFloor(std::span<const TensorView> results, uint64_t seed);

}  // namespace msprobe::perturb
