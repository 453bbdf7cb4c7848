// How two results of one operator stand to each other, element by element; and how far a result is
// off what it should be, by what it may be off.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "msprobe/dtype.h"

namespace msprobe::kernels {

struct RatioRule {
  double floor = 0;      // above 0; magnitudes below count as this
  double most = 0;       // ratios above count as this
  double threshold = 0;  // of what `exceeding` counts
  // Whether `sum` and `exceeding` are asked for, which takes as long again; they are 0 otherwise.
  bool details = true;
};

struct RatioRun {
  double largest = 0;      // ratio
  double smallest = 0;     // ratio
  double sum = 0;          // of max(ratio, 1 / ratio), both in the type of the spans
  uint64_t exceeding = 0;  // elements whose max(ratio, 1 / ratio) is more than the threshold
};

// ratios[i] = |original[i]| / |perturbed[i]|, neither less than the floor, computed in `type`:
// float32, or float16 or bfloat16, to which original elements and quotients are rounded then
// (perturbed ones are numbers of that type). All three spans are of the same size, at least one
// element. Nothing, with ratios undefined, where an element is not finite or two have different
// signs. Sums are in eight lanes: the same bits on every processor.
std::optional<RatioRun> RatiosOf(DType type, std::span<const float> original,
                                 std::span<const float> perturbed, const RatioRule& rule,
                                 std::span<float> ratios);
// The same in float64.
std::optional<RatioRun> RatiosOf(std::span<const double> original,
                                 std::span<const double> perturbed, const RatioRule& rule,
                                 std::span<double> ratios);

struct BoundRule {
  double slack = 1;  // errors are taken so many times
  double unit = 0;   // what storing a number may cost of its magnitude
  double tiny = 0;   // and what at least
  double asked = 0;  // the ratio that `reaching` counts
};

struct BoundRun {
  double largest = 0;     // ratio
  uint64_t reaching = 0;  // elements that have the ratio that was asked for, or a larger one
};

// The ratios |found[i] - wanted[i]| / (error + (unit * (|wanted[i]| + error) + tiny)), where error
// is slack * errors[i]. The spans are of the same size. Nothing where a difference or a bound is
// not finite.
std::optional<BoundRun> BoundRatiosOf(std::span<const double> found, std::span<const double> wanted,
                                      std::span<const double> errors, const BoundRule& rule);

}  // namespace msprobe::kernels
