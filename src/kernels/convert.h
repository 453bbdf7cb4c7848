// Any dtype's elements as float or double, for code that computes on them.
#pragma once

#include <cstddef>
#include <span>

#include "msprobe/dtype.h"

namespace msprobe::kernels {

// Writes out.size() elements; `data` holds at least as many whole little-endian elements, at any
// alignment. Bool becomes 0 or 1, a complex value its real part. Values that do not fit are rounded
// to the nearest, ties to even.
void WidenToFloat(DType dtype, std::span<const std::byte> data, std::span<float> out);
void WidenToDouble(DType dtype, std::span<const std::byte> data, std::span<double> out);

// sqrt(x^2 + y^2) without overflow or underflow on the way; infinity where either side is infinite,
// else NaN where either is. Within 0.51 units of the last digit, and the same bits everywhere,
// which the C library's hypot does not promise (Borges, "An Improved Algorithm for hypot(a,b)",
// 2019).
double Hypotenuse(double x, double y);

// Absolute values of complex64 or complex128 elements.
void ComplexMagnitudes(DType dtype, std::span<const std::byte> data, std::span<double> out);

}  // namespace msprobe::kernels
