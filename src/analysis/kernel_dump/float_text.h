// Values as NumPy prints them: with the fewest digits that tell one value of their type from its
// neighbours.
#pragma once

#include <string>

#include "msprobe/dtype.h"

namespace msprobe::analysis::kernel_dump {

// An element of `dtype`: "3.133" of a float16, "2.71992" of a float32, "254" of an integer.
std::string NumpyText(DType dtype, double value);
// A mean of elements of `dtype`: of the same type for floats, of float64 for the others.
std::string NumpyMeanText(DType dtype, double value);

}  // namespace msprobe::analysis::kernel_dump
