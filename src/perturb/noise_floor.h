// How much of an operator's result is noise: the same call several times, its inputs and outputs
// rounded up or down at random, its sums in another order.
#pragma once

#include <cstdint>
#include <span>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

// Student's t distribution: how far a mean of few samples may be from the truth.

// The t beyond which neither tail of `degrees` degrees of freedom holds more than
// (1 - confidence) / 2: 12.706 for 0.95 and 1, 4.303 for 2, 1.960 in the limit. From the finite
// sums of M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, by
// bisection. `confidence` between 0 and 1, both excluded; `degrees` from 1 on.
double StudentQuantile(double confidence, uint32_t degrees);

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

// `results`: two or more of one floating dtype and as many elements each. Each is rounded at random
// first (src/perturb/perturbation.h), with its own part of `seed`; nothing is written.
// Memory is that of a few blocks, sums are those of fixed blocks in order.
Result<NoiseFloor> MeasureNoiseFloor(std::span<const TensorView> results, uint64_t seed);

// Thresholds of ratios that adapt in the first steps of a training: calls are sampled and judged
// against the CPU, and the threshold of their kind goes where it separates good from bad ones.

inline constexpr double kFirstThreshold = 2.05;

struct PreheatThreshold {
  double value = kFirstThreshold;
  bool adapts = true;  // false once a bad call was seen that it separates
};

// How many calls of a function are sampled per step: min(ceil(calls / preheat_step), max_sample);
// `calls` as counted in step 0. All from 1 on.
int64_t SamplesPerStep(int64_t calls, int64_t preheat_step, int64_t max_sample);

// Whether call `number` (from 1 on) of step `step` is sampled: those numbered
// (preheat_step * (i - 1) + step) mod calls, 0 standing for `calls`, i = 1 .. SamplesPerStep.
bool IsSampled(int64_t number, int64_t calls, int64_t preheat_step, int64_t max_sample,
               int64_t step);

// The samples of one step: ratios of calls that agree with the CPU, and of those that do not.
// `least`: the threshold without preheating, below which none goes.
void Adapt(PreheatThreshold& threshold, std::span<const double> consistent,
           std::span<const double> inconsistent, double least);

}  // namespace msprobe::perturb
