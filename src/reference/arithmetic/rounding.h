// What a floating type and its arithmetic may do to a number.
//
// Standard model: fl(x op y) = (x op y)(1 + d) + t with |d| <= u, and |t| no more than half of the
// smallest number where results are subnormal (N. J. Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., section 2.2 and problem 2.19). A sum of n terms in any order is off by no
// more than gamma(n - 1) times the sum of magnitudes, gamma(n) = n u / (1 - n u) (lemma 3.1,
// section 4.2).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "msprobe/dtype.h"

#include "src/tensor/float_limits.h"

namespace msprobe::reference {

using tensor::FloatFormat;
using tensor::FormatOf;

// TF32 keeps 10 bits of a float32 number's mantissa and all of its exponent (NVIDIA, A100 Tensor
// Core GPU Architecture, 2020). Matrix units take a factor for one by leaving its other bits out,
// which costs up to 2^-10 of it, twice of what rounding to nearest does. HF32 of Ascend keeps 11
// bits: it is within the same bounds.
inline constexpr FloatFormat kTf32 = {.unit = 0x1p-10, .tiny = 0x1p-136, .normal = 0x1p-126};

bool IsFloat(DType dtype);

// The arithmetic of one call.
struct Rounding {
  DType storage = DType::kFloat32;  // of its floating tensors
  FloatFormat stored;
  // Of what it computes with: float32 for 16-bit types, which accelerators and libraries accumulate
  // so; the storage type itself otherwise.
  FloatFormat working;
  double unit = 0;            // of working; twice that of float64, which the reference has, too
  double function_units = 4;  // of exp, tanh, pow, ...: errors that libraries document, in units
  // What products of matrices take their factors for: unit and tiny 0, for what they are.
  FloatFormat factors;

  // "steps": every operation may round to the storage type (implementations out of several calls).
  static Rounding Of(DType storage, bool steps);
  Rounding WithFactorsOf(const FloatFormat& format) const {
    Rounding rounding = *this;
    rounding.factors = format;
    return rounding;
  }

  // What a sum of so many terms is off by, relative to the sum of their magnitudes. Of sums that
  // round to a 16-bit type at every step, for which the worst case soon says nothing, it is the
  // probable bound where that is smaller: lambda sqrt(n) u (N. J. Higham, T. Mary, A new approach
  // to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41 (2019), theorem 2.4), lambda
  // = 6: one in 3e7 sums is further off.
  double Gamma(size_t terms) const {
    const auto n = static_cast<double>(terms);
    const double product = n * unit;
    const double worst =
        product < 1 ? product / (1 - product) : std::numeric_limits<double>::infinity();
    return unit > 0x1p-16 ? std::min(worst, 6 * std::sqrt(n) * unit) : worst;
  }
  // What rounding a result of this magnitude once costs.
  double Step(double magnitude) const {
    return std::isfinite(magnitude) ? unit * std::fabs(magnitude) + working.tiny : 0.0;
  }
  // Whether a derivative may come out infinite: some are stored, or made of the stored result of
  // their function, which a type of small range may have no numbers for.
  template <typename Result>
  bool MayOverflow(const Result& result, double derivative) const {
    constexpr double kWideRange = 0x1p100;
    const auto is_beyond = [&](double number) {
      return std::isfinite(number) && std::fabs(number) * (1 + 2 * stored.unit) >= stored.largest;
    };
    return stored.largest < kWideRange && (is_beyond(derivative) || is_beyond(result()));
  }
  // What storing it costs.
  double Store(double magnitude) const {
    return std::isfinite(magnitude) ? stored.unit * std::fabs(magnitude) + stored.tiny : 0.0;
  }
};

}  // namespace msprobe::reference
