#include "msprobe/tensor_view.h"

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
