// Matrices turned around: rows become columns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msprobe::kernels {

// to[c * to_stride + r] = from[r * from_stride + c] for every row r and column c. Strides are in
// elements of `element_bytes` (1, 2, 4, 8 or 16) bytes, at any alignment; the two do not overlap.
void TransposeMatrix(size_t element_bytes, const std::byte* from, int64_t from_stride,
                     std::byte* to, int64_t to_stride, int64_t rows, int64_t columns);

}  // namespace msprobe::kernels
