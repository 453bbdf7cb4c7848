// The common refinement of two tilings: boxes that lie in one piece on each side. A parameter that
// one model's ranks cut along rows is compared with one cut along columns without building either:
// each box is a view into both sides' files.
#pragma once

#include <cstddef>
#include <vector>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

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

// Beside 8 for each piece: a thousand ranks that hold columns against a thousand that hold rows.
inline constexpr size_t kMostBoxes = 1'000'000;

// Both parameters have the same shape, and their pieces tile it. In row-major order of offsets. An
// error where rows of one side meet columns of the other in more boxes than memory is for: pieces
// may repeat an element, so that their files are small.
Result<std::vector<Box>> Refine(const checkpoint::Parameter& a, const checkpoint::Parameter& b,
                                size_t most_boxes = kMostBoxes);

}  // namespace msprobe::analysis::ckpt
