#include "src/analysis/ckpt/refine.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

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
  for (size_t axis = 0; axis < a.offset.size(); ++axis) {
    if (a.offset[axis] >= b.offset[axis] + b.view.shape[axis] ||
        b.offset[axis] >= a.offset[axis] + a.view.shape[axis]) {
      return std::nullopt;
    }
  }
  Box box;
  Shape shape(a.offset.size());
  box.offset.resize(a.offset.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t begin = std::max(a.offset[axis], b.offset[axis]);
    const int64_t end =
        std::min(a.offset[axis] + a.view.shape[axis], b.offset[axis] + b.view.shape[axis]);
    box.offset[axis] = begin;
    shape[axis] = end - begin;
  }
  box.a = Cut(a, box.offset, shape);
  box.b = Cut(b, box.offset, shape);
  box.plain_a = box.a.is_plain();
  box.plain_b = box.b.is_plain();
  return box;
}

// Pieces in a tree of boxes around them, so that those which meet another piece are found without
// a look at all: tilings of either side may be cut along any axis, and into any number of pieces.
class PieceTree {
 public:
  explicit PieceTree(const std::vector<Piece>& pieces)
      : pieces_(pieces),
        order_(pieces.size()),
        rank_(pieces.empty() ? 0 : pieces[0].offset.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (!pieces.empty()) {
      Build(0, order_.size());
    }
  }

  // Calls visit(number of the piece) for all whose boxes meet that of `piece`, and some more.
  template <typename Visit>
  void ForEachNear(const Piece& piece, Visit&& visit) const {
    std::vector<size_t> pending;
    if (!nodes_.empty()) {
      pending.push_back(0);
    }
    while (!pending.empty()) {
      const Node& node = nodes_[pending.back()];
      pending.pop_back();
      if (!Meets(node, piece)) {
        continue;
      }
      if (node.right != 0) {
        pending.push_back(node.left);
        pending.push_back(node.right);
        continue;
      }
      std::for_each(order_.begin() + static_cast<std::ptrdiff_t>(node.begin),
                    order_.begin() + static_cast<std::ptrdiff_t>(node.end), visit);
    }
  }

 private:
  static constexpr size_t kLeafPieces = 8;

  struct Node {
    size_t begin = 0;  // in order_
    size_t end = 0;
    size_t left = 0;  // of a leaf both are 0
    size_t right = 0;
    size_t bounds = 0;  // in bounds_: the first element and the end on every axis
  };

  bool Meets(const Node& node, const Piece& piece) const {
    const int64_t* bounds = bounds_.data() + node.bounds;
    for (size_t axis = 0; axis < rank_; ++axis) {
      if (piece.offset[axis] >= bounds[2 * axis + 1] ||
          piece.offset[axis] + piece.view.shape[axis] <= bounds[2 * axis]) {
        return false;
      }
    }
    return true;
  }

  // Halves on the axis where most places begin, down to a few pieces: no deeper than the logarithm
  // of their number.
  size_t Build(size_t begin, size_t end) {
    const size_t number = nodes_.size();
    nodes_.push_back({begin, end, 0, 0, bounds_.size()});
    size_t widest = 0;
    double most = 0;
    for (size_t axis = 0; axis < rank_; ++axis) {
      int64_t first = INT64_MAX;
      int64_t last_begin = 0;
      int64_t last = 0;
      double length = 0;
      for (size_t i = begin; i < end; ++i) {
        const Piece& piece = pieces_[order_[i]];
        first = std::min(first, piece.offset[axis]);
        last_begin = std::max(last_begin, piece.offset[axis]);
        last = std::max(last, piece.offset[axis] + piece.view.shape[axis]);
        length += static_cast<double>(piece.view.shape[axis]);
      }
      bounds_.push_back(first);
      bounds_.push_back(last);
      const double spread = static_cast<double>(last_begin - first) / std::max(length, 1.0);
      if (spread > most) {
        most = spread;
        widest = axis;
      }
    }
    if (end - begin <= kLeafPieces || most == 0) {
      return number;
    }
    const size_t middle = begin + (end - begin) / 2;
    const auto at = [this](size_t place) {
      return order_.begin() + static_cast<std::ptrdiff_t>(place);
    };
    std::nth_element(at(begin), at(middle), at(end), [&](size_t x, size_t y) {
      return pieces_[x].offset[widest] < pieces_[y].offset[widest];
    });
    const size_t left = Build(begin, middle);
    const size_t right = Build(middle, end);
    nodes_[number].left = left;
    nodes_[number].right = right;
    return number;
  }

  const std::vector<Piece>& pieces_;
  std::vector<size_t> order_;
  size_t rank_;
  std::vector<Node> nodes_;
  std::vector<int64_t> bounds_;
};

}  // namespace

Result<std::vector<Box>> Refine(const Parameter& a, const Parameter& b, size_t most_boxes) {
  constexpr size_t kBoxesPerPiece = 8;
  most_boxes += kBoxesPerPiece * (a.pieces.size() + b.pieces.size());
  const PieceTree tree(b.pieces);
  std::vector<Box> boxes;
  for (size_t i = 0; i < a.pieces.size(); ++i) {
    const Piece& piece = a.pieces[i];
    tree.ForEachNear(piece, [&](size_t j) {
      if (boxes.size() > most_boxes) {
        return;
      }
      if (std::optional<Box> box = Intersect(piece, b.pieces[j])) {
        box->piece_a = i;
        box->piece_b = j;
        boxes.push_back(*std::move(box));
      }
    });
    if (boxes.size() > most_boxes) {
      return UnsupportedError(fmt::format("its {} and {} pieces meet in more than {} places",
                                          a.pieces.size(), b.pieces.size(), most_boxes));
    }
  }
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Box& x, const Box& y) { return x.offset < y.offset; });
  return boxes;
}

}  // namespace msprobe::analysis::ckpt
