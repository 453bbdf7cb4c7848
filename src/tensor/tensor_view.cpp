#include "msprobe/tensor_view.h"

#include <charconv>

namespace msprobe {

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

Shape ContiguousStrides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis] > 0 ? shape[axis] : 1;
  }
  return strides;
}

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) {
      text += ", ";
    }
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

std::optional<Shape> ParseShape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  Shape shape;
  int64_t count = 1;  // of the elements, where no size is 0
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  const auto skip_spaces = [&] {
    while (at < end && *at == ' ') {
      ++at;
    }
  };
  skip_spaces();
  while (at < end) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || shape.size() == kMostShapeAxes ||
        __builtin_mul_overflow(count, size > 0 ? size : 1, &count)) {
      return std::nullopt;
    }
    shape.push_back(size);
    at = next;
    skip_spaces();
    if (at == end) {
      return shape;
    }
    if (*at++ != ',') {
      return std::nullopt;
    }
    skip_spaces();
    if (at == end) {
      return std::nullopt;
    }
  }
  return shape;
}

bool TensorView::is_plain() const {
  if ((byte_swapped && DTypeSize(dtype) > 1) || conjugated || negated) {
    return false;
  }
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) {
      return true;
    }
    // The stride of an axis of length one is never used.
    if (shape[axis] != 1 && strides[axis] != step) {
      return false;
    }
    step *= shape[axis];
  }
  return true;
}

}  // namespace msprobe
