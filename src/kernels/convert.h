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

// Absolute values of complex64 or complex128 elements.
void ComplexMagnitudes(DType dtype, std::span<const std::byte> data, std::span<double> out);

}  // namespace msprobe::kernels
