// Owning tensor memory, and the copy that turns any view into plain row-major little-endian bytes.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::tensor {

// A tensor of these row-major bytes.
TensorView RowMajorView(DType dtype, Shape shape, std::span<const std::byte> bytes);

// A tensor that owns its row-major bytes.
class TensorBuffer {
 public:
  TensorBuffer() = default;
  TensorBuffer(DType dtype, Shape shape);

  std::span<std::byte> mutable_bytes() { return bytes_; }
  TensorView view() const;
  // Nothing is left in the buffer.
  std::vector<std::byte> TakeBytes() && { return std::move(bytes_); }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// Writes elements [first, first + count) of `view`, counted in row-major order, to `out` (count *
// element size bytes), applying byte order, conjugation and negation. Strided walks touch only the
// elements asked for, so a caller can stream a large view block by block.
void CopyElements(const TensorView& view, int64_t first, int64_t count, std::byte* out);

// Refuses views of more than `limit_bytes` (an expanded view of a small storage can claim
// terabytes).
Result<TensorBuffer> MakeContiguous(const TensorView& view, size_t limit_bytes);

// A complex tensor as one of real numbers, with real and imaginary part along a new last axis. It
// refers to the elements of `complex`, or to `scratch` where these need a change.
TensorView AsReals(const TensorView& complex, std::vector<std::byte>& scratch);

}  // namespace msprobe::tensor
