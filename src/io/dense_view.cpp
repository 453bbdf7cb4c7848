#include "src/io/dense_view.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/io/byte_order.h"

namespace msprobe::io {

Result<int64_t> DenseBytes(const Shape& shape, size_t element_bytes) {
  if (shape.size() > kMaxRank) {
    return UnsupportedError(
        fmt::format("a tensor of rank {} (the limit is {})", shape.size(), kMaxRank));
  }
  auto bytes = static_cast<int64_t>(element_bytes);
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) {
      return BadFormatError(fmt::format("negative size in shape {}", ShapeText(shape)));
    }
    empty |= size == 0;
    if (size > 0 && !CheckedMultiply(bytes, size, &bytes)) {
      return BadFormatError(fmt::format("shape {} is larger than any memory", ShapeText(shape)));
    }
  }
  return empty ? 0 : bytes;
}

Result<TensorView> MakeDenseView(DType dtype, Shape shape, bool fortran_order,
                                 std::span<const std::byte> data) {
  MSP_ASSIGN_OR_RETURN(const int64_t bytes, DenseBytes(shape, DTypeSize(dtype)));
  if (static_cast<uint64_t>(bytes) > data.size()) {
    return BadFormatError(fmt::format("shape {} of {} needs {} bytes, there are {}",
                                      ShapeText(shape), DTypeName(dtype), bytes, data.size()));
  }
  TensorView view;
  view.dtype = dtype;
  if (fortran_order) {
    Shape reversed(shape.rbegin(), shape.rend());
    view.strides = ContiguousStrides(reversed);
    std::reverse(view.strides.begin(), view.strides.end());
  } else {
    view.strides = ContiguousStrides(shape);
  }
  view.shape = std::move(shape);
  view.data = data.data();
  view.extent_bytes = static_cast<size_t>(bytes);
  return view;
}

}  // namespace msprobe::io
