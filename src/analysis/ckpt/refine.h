// The common refinement of two tilings: boxes that lie in one piece on each side. A parameter that
// one model's ranks cut along rows is compared with one cut along columns without building either:
// each box is a view into both sides' files.
#pragma once

#include <cstddef>
#include <vector>

#include "src/checkpoint/parameter.h"

namespace msprobe::analysis::ckpt {

// A rectangle of the parameter, seen on both sides; both views have its shape.
struct Box {
  TensorView a;
  TensorView b;
  Shape offset;        // of its first element in the parameter
  size_t piece_a = 0;  // the pieces it was cut from
  size_t piece_b = 0;
  bool plain_a = false;  // a.is_plain()
  bool plain_b = false;

  int64_t element_count() const { return a.element_count(); }
};

// Both parameters have the same shape, and their pieces tile it. In row-major order of offsets.
std::vector<Box> Refine(const checkpoint::Parameter& a, const checkpoint::Parameter& b);

}  // namespace msprobe::analysis::ckpt
