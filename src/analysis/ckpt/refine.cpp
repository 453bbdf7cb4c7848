#include "src/analysis/ckpt/refine.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;
using checkpoint::Piece;

// The part of a piece that covers `shape` elements from `offset` (of the whole) on.
TensorView Cut(const Piece& piece, const Shape& offset, const Shape& shape) {
  TensorView view = piece.view;
  size_t skipped = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    skipped += static_cast<size_t>(offset[axis] - piece.offset[axis]) *
               static_cast<size_t>(view.strides[axis]) * DTypeSize(view.dtype);
  }
  view.data += skipped;
  view.extent_bytes -= skipped;
  view.shape = shape;
  return view;
}

std::optional<Box> Intersect(const Piece& a, const Piece& b) {
  Box box;
  Shape shape(a.offset.size());
  box.offset.resize(a.offset.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t begin = std::max(a.offset[axis], b.offset[axis]);
    const int64_t end =
        std::min(a.offset[axis] + a.view.shape[axis], b.offset[axis] + b.view.shape[axis]);
    if (begin >= end) {
      return std::nullopt;
    }
    box.offset[axis] = begin;
    shape[axis] = end - begin;
  }
  box.a = Cut(a, box.offset, shape);
  box.b = Cut(b, box.offset, shape);
  box.plain_a = box.a.is_plain();
  box.plain_b = box.b.is_plain();
  return box;
}

int64_t FirstRow(const Piece& piece) { return piece.offset.empty() ? 0 : piece.offset[0]; }
int64_t EndRow(const Piece& piece) {
  return piece.offset.empty() ? 1 : piece.offset[0] + piece.view.shape[0];
}

}  // namespace

std::vector<Box> Refine(const Parameter& a, const Parameter& b) {
  // Pieces stand in order of their first rows. The largest end so far tells where to begin looking
  // for partners, so that thousands of shards along axis 0 cost no more than a merge.
  std::vector<int64_t> largest_end;
  largest_end.reserve(b.pieces.size());
  for (const Piece& piece : b.pieces) {
    largest_end.push_back(
        std::max(largest_end.empty() ? INT64_MIN : largest_end.back(), EndRow(piece)));
  }
  std::vector<Box> boxes;
  for (size_t i = 0; i < a.pieces.size(); ++i) {
    const Piece& piece = a.pieces[i];
    const auto first = std::upper_bound(largest_end.begin(), largest_end.end(), FirstRow(piece));
    for (auto j = static_cast<size_t>(first - largest_end.begin());
         j < b.pieces.size() && FirstRow(b.pieces[j]) < EndRow(piece); ++j) {
      if (std::optional<Box> box = Intersect(piece, b.pieces[j])) {
        box->piece_a = i;
        box->piece_b = j;
        boxes.push_back(*std::move(box));
      }
    }
  }
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Box& x, const Box& y) { return x.offset < y.offset; });
  return boxes;
}

}  // namespace msprobe::analysis::ckpt
