// Thresholds of ratios that adapt in the first steps of a training: calls are sampled and judged
// against the CPU, and the threshold of their kind goes where it separates good from bad ones.
#pragma once

#include <cstdint>
#include <span>

namespace msprobe::perturb {

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
