#include "src/checkpoint/hugging_face/rank_shards.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "src/io/dense_view.h"

namespace msprobe::checkpoint {

void MoveTo(const Shape& offset, Parameter& part) {
  if (offset.size() != part.shape.size()) {
    part.status = BadFormatError(fmt::format("a part of shape {} cannot lie at {}",
                                             ShapeText(part.shape), ShapeText(offset)));
    return;
  }
  for (Piece& piece : part.pieces) {
    piece.offset = offset;
  }
  for (size_t axis = 0; axis < part.shape.size(); ++axis) {
    if (__builtin_add_overflow(part.shape[axis], offset[axis], &part.shape[axis])) {
      part.status = BadFormatError(fmt::format("a part lies at {}", ShapeText(offset)));
    }
  }
}

void JoinShard(Parameter& part, Parameter& whole) {
  if (whole.status.ok()) {
    whole.status = part.status;
  }
  if (!whole.status.ok()) {
    return;
  }
  if (whole.shape.size() != part.shape.size()) {
    whole.status = BadFormatError(
        fmt::format("parts reach to {} and {}", ShapeText(whole.shape), ShapeText(part.shape)));
    return;
  }
  for (size_t axis = 0; axis < whole.shape.size(); ++axis) {
    whole.shape[axis] = std::max(whole.shape[axis], part.shape[axis]);
  }
  std::move(part.pieces.begin(), part.pieces.end(), std::back_inserter(whole.pieces));
}

void CloseShards(Parameter& whole) {
  const Status size = io::DenseBytes(whole.shape, DTypeSize(whole.dtype)).status();
  if (whole.status.ok()) {
    whole.status = size;
  }
  if (!size.ok()) {
    whole.shape.clear();  // nobody can count its elements
  }
  if (whole.status.ok()) {
    whole.status = CheckTiling(whole);
  }
  if (!whole.status.ok()) {
    whole.pieces.clear();
  }
}

}  // namespace msprobe::checkpoint
