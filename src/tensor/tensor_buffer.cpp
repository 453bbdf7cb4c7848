#include "src/tensor/tensor_buffer.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/tensor/float_limits.h"

namespace msprobe::tensor {
namespace {

// Width of the scalars that byte order and signs apply to: half of a complex element.
size_t ScalarBytes(DType dtype) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  return info.kind == DTypeKind::kComplex ? info.size_bytes / 2U : info.size_bytes;
}

void ReverseScalars(std::byte* bytes, size_t size, size_t scalar_bytes) {
  for (size_t at = 0; at < size; at += scalar_bytes) {
    std::reverse(bytes + at, bytes + at + scalar_bytes);
  }
}

// Flips the sign bit of every `step`-th scalar from `start` on (little-endian: the top byte is
// last).
void FlipSigns(std::byte* bytes, size_t size, size_t scalar_bytes, size_t start, size_t step) {
  for (size_t at = start * scalar_bytes; at < size; at += step * scalar_bytes) {
    bytes[at + scalar_bytes - 1] ^= std::byte{0x80};
  }
}

// Two's complement negation of integers, the only case where flipping a sign bit is not enough.
void NegateIntegers(std::byte* bytes, size_t size, size_t scalar_bytes) {
  for (size_t at = 0; at < size; at += scalar_bytes) {
    uint64_t value = 0;
    std::memcpy(&value, bytes + at, scalar_bytes);
    value = ~value + 1;
    std::memcpy(bytes + at, &value, scalar_bytes);
  }
}

// The row-major walk over a strided view, `element` bytes at a time.
void CopyStrided(const TensorView& view, int64_t first, int64_t count, std::byte* out) {
  const size_t element = DTypeSize(view.dtype);
  const size_t rank = view.shape.size();
  Shape index(rank, 0);
  int64_t rest = first;
  int64_t offset = 0;
  for (size_t axis = rank; axis-- > 0;) {
    index[axis] = rest % view.shape[axis];
    rest /= view.shape[axis];
    offset += index[axis] * view.strides[axis];
  }
  const int64_t inner_size = rank > 0 ? view.shape[rank - 1] : 1;
  const int64_t inner_stride = rank > 0 ? view.strides[rank - 1] : 1;
  while (count > 0) {
    const int64_t position = rank > 0 ? index[rank - 1] : 0;
    const int64_t run = std::min(count, inner_size - position);
    const std::byte* source = view.data + offset * static_cast<int64_t>(element);
    if (inner_stride == 1) {
      std::memcpy(out, source, static_cast<size_t>(run) * element);
    } else {
      const int64_t step = inner_stride * static_cast<int64_t>(element);
      for (int64_t i = 0; i < run; ++i) {
        std::memcpy(out + static_cast<size_t>(i) * element, source + i * step, element);
      }
    }
    out += static_cast<size_t>(run) * element;
    count -= run;
    if (count == 0) {
      return;
    }
    // Carry into the outer axes; the inner one is exhausted.
    offset -= position * inner_stride;
    index[rank - 1] = 0;
    for (size_t axis = rank - 1; axis-- > 0;) {
      offset += view.strides[axis];
      if (++index[axis] < view.shape[axis]) {
        break;
      }
      offset -= view.shape[axis] * view.strides[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

TensorBuffer::TensorBuffer(DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      bytes_(static_cast<size_t>(ElementCount(shape_)) * DTypeSize(dtype)) {}

TensorView RowMajorView(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  TensorView view;
  view.dtype = dtype;
  view.strides = ContiguousStrides(shape);
  view.shape = std::move(shape);
  view.data = bytes.data();
  view.extent_bytes = bytes.size();
  return view;
}

TensorView TensorBuffer::view() const { return RowMajorView(dtype_, shape_, bytes_); }

void CopyElements(const TensorView& view, int64_t first, int64_t count, std::byte* out) {
  if (count <= 0) {
    return;
  }
  const DTypeInfo& info = GetDTypeInfo(view.dtype);
  const size_t size = static_cast<size_t>(count) * info.size_bytes;
  if (view.is_plain()) {
    std::memcpy(out, view.data + static_cast<size_t>(first) * info.size_bytes, size);
    return;
  }
  CopyStrided(view, first, count, out);
  const size_t scalar_bytes = ScalarBytes(view.dtype);
  if (view.byte_swapped && scalar_bytes > 1) {
    ReverseScalars(out, size, scalar_bytes);
  }
  if (view.negated) {
    if (info.kind == DTypeKind::kFloat || info.kind == DTypeKind::kComplex) {
      FlipSigns(out, size, scalar_bytes, 0, 1);
    } else {
      NegateIntegers(out, size, scalar_bytes);
    }
  }
  if (view.conjugated && info.kind == DTypeKind::kComplex) {
    FlipSigns(out, size, scalar_bytes, 1, 2);
  }
}

Result<TensorBuffer> MakeContiguous(const TensorView& view, size_t limit_bytes) {
  if (view.size_bytes() > limit_bytes) {
    return UnsupportedError("a tensor of " + std::to_string(view.size_bytes()) +
                            " bytes is above the limit of " + std::to_string(limit_bytes));
  }
  TensorBuffer buffer(view.dtype, view.shape);
  CopyElements(view, 0, view.element_count(), buffer.mutable_bytes().data());
  return buffer;
}

TensorView AsReals(const TensorView& complex, std::vector<std::byte>& scratch) {
  TensorView reals = complex;
  if (complex.conjugated) {  // a change of every second number, which no view of reals can say
    scratch.resize(complex.size_bytes());
    CopyElements(complex, 0, complex.element_count(), scratch.data());
    reals = RowMajorView(complex.dtype, complex.shape, scratch);
  }
  reals.dtype = PartOf(complex.dtype);
  for (int64_t& stride : reals.strides) {
    stride *= 2;
  }
  reals.shape.push_back(2);
  reals.strides.push_back(1);
  return reals;
}

}  // namespace msprobe::tensor
