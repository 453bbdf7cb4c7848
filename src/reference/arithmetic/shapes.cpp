#include <algorithm>

#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {

BroadcastShape Broadcast(const Shape& a, const Shape& b) {
  BroadcastShape result;
  result.shape.resize(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.shape.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    result.ok = result.ok && (left == right || left == 1 || right == 1);
    result.shape[result.shape.size() - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

std::vector<int64_t> BroadcastStrides(const Shape& shape, const Shape& whole) {
  std::vector<int64_t> strides(whole.size(), 0);
  const Shape own = ContiguousStrides(shape);
  for (size_t i = 0; i < shape.size() && i < whole.size(); ++i) {
    const size_t from = shape.size() - 1 - i;
    strides[whole.size() - 1 - i] = shape[from] == 1 ? 0 : own[from];
  }
  return strides;
}

std::vector<int64_t> BroadcastIndices(const Shape& shape, const Shape& whole) {
  const auto count = static_cast<size_t>(ElementCount(whole));
  std::vector<int64_t> indices(count);
  if (count == 0) {
    return indices;
  }
  const std::vector<int64_t> strides = BroadcastStrides(shape, whole);
  std::vector<int64_t> place(whole.size(), 0);
  const size_t inner = whole.empty() ? 1 : static_cast<size_t>(whole.back());
  const int64_t inner_stride = whole.empty() ? 0 : strides.back();
  int64_t base = 0;
  for (size_t first = 0; first < count; first += inner) {
    for (size_t i = 0; i < inner; ++i) {
      indices[first + i] = base + static_cast<int64_t>(i) * inner_stride;
    }
    for (size_t dim = whole.size() > 1 ? whole.size() - 1 : 0; dim-- > 0;) {
      base += strides[dim];
      if (++place[dim] < whole[dim]) {
        break;
      }
      base -= strides[dim] * whole[dim];
      place[dim] = 0;
    }
  }
  return indices;
}

}  // namespace msprobe::reference
