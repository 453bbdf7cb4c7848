// What operators share in reading their arguments.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"

namespace msprobe::reference {

// A tensor, or a number that goes with tensors.
Value Operand(Call& call, const Arithmetic& arithmetic, size_t position, std::string_view name);
// The larger or the smaller of each two; equal ones share the gradient.
Value ExtremeOfTwo(const Arithmetic& arithmetic, const Value& a, const Value& b, bool largest);
// The root of a sum of squares, whose error may reach down to 0; without a gradient.
Value RootOfSquares(const Arithmetic& arithmetic, const Value& x);
// 0 <= result < rank; a problem of the call otherwise. A tensor without dims counts as one dim.
int64_t DimOf(Call& call, int64_t dim, size_t rank);
// The dims of a reduction: as given, or all of them. Sorted, without doubles.
std::vector<int64_t> DimsOf(Call& call, size_t position, std::string_view name, size_t rank);
// `numbers` with one of them repeated to `count`; empty: `otherwise`.
std::vector<int64_t> Spread(Call& call, std::vector<int64_t> numbers, size_t count,
                            int64_t otherwise);
// x with dim `dim` as the last one, and back.
Value DimLast(const Arithmetic& arithmetic, const Value& x, int64_t dim);
Value DimBack(const Arithmetic& arithmetic, const Value& x, int64_t dim);
// The dtype of the argument at this place; nullopt where it names none that is known.
std::optional<DType> DTypeArgument(Call& call, size_t position, std::string_view name);

}  // namespace msprobe::reference
