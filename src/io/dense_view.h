// Views of tensors stored without gaps, and the arithmetic that keeps hostile shapes from
// overflowing.
#pragma once

#include <cstddef>
#include <span>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

inline constexpr size_t kMaxRank = 64;

// Bytes of a dense tensor. Refuses negative sizes, ranks above kMaxRank, and shapes whose product
// (zeros left out, so that strides fit too) or byte size does not fit in int64.
Result<int64_t> DenseBytes(const Shape& shape, size_t element_bytes);

// A view of `data`, which must hold the tensor but may be longer; column-major when
// `fortran_order`.
Result<TensorView> MakeDenseView(DType dtype, Shape shape, bool fortran_order,
                                 std::span<const std::byte> data);

}  // namespace msprobe::io
