#include "src/capture/request_rows.h"

#include <algorithm>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/capture/tensor_description.h"

namespace msprobe::capture {
namespace {

constexpr int64_t kFarthestElement = int64_t{1} << 56U;

// As Python counts: from the end where negative, never outside.
int64_t Position(int64_t given, int64_t length) {
  return std::clamp<int64_t>(given < 0 ? given + length : given, 0, length);
}

}  // namespace

std::optional<TensorSlice> RowsOf(const std::vector<RequestRows>& batch, std::string_view id) {
  for (const RequestRows& rows : batch) {
    if (rows.id == id) {
      TensorSlice slice;
      slice.size = batch.back().end;
      slice.begin = rows.begin;
      slice.end = rows.end;
      return slice;
    }
  }
  return std::nullopt;
}

void TakeSlices(const std::vector<TensorSlice>& slices, TensorDescription& tensor) {
  if (!tensor.dtype ||
      std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n < 0; })) {
    return;
  }
  const Shape whole = tensor.shape;
  if (tensor.strides.empty()) {
    tensor.strides = ContiguousStrides(tensor.shape);
  }
  if (tensor.strides.size() != whole.size()) {
    return;  // told when its view is made
  }
  const auto* const first = static_cast<const std::byte*>(tensor.data);
  std::vector<int64_t> begins(whole.size(), 0);
  for (const TensorSlice& slice : slices) {
    if (slice.dimension >= static_cast<int64_t>(whole.size())) {
      continue;
    }
    const auto axis = static_cast<size_t>(slice.dimension);
    const int64_t length = whole[axis];
    if (slice.size && *slice.size != length) {
      continue;
    }
    begins[axis] = Position(slice.begin, length);
    const int64_t end = slice.end ? Position(*slice.end, length) : length;
    tensor.shape[axis] = std::max<int64_t>(end - begins[axis], 0);
  }
  if (first == nullptr) {
    return;
  }
  int64_t offset = 0;  // in elements
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    int64_t skipped = 0;
    if (__builtin_mul_overflow(begins[axis], tensor.strides[axis], &skipped) ||
        __builtin_add_overflow(offset, skipped, &offset) || offset > kFarthestElement) {
      tensor.shape = whole;  // such strides are refused when its view is made
      return;
    }
  }
  const bool is_empty =
      std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  tensor.data =
      is_empty ? tensor.data : first + offset * static_cast<int64_t>(DTypeSize(*tensor.dtype));
}

}  // namespace msprobe::capture
