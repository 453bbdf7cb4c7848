// How the pieces of a tensor are spread where nothing tells it: from shapes and statistics of both
// sides. A guess is never presented as a fact: what does not fit is unknown.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/layout/layout_file.h"
#include "src/layout/placement.h"

namespace msprobe::layout {

// The pieces that one side holds of a tensor, in the order of the grid.
struct Pieces {
  GridSize grid = {1, 1, 1, 1};
  std::vector<Shape> shapes;
  std::vector<PieceStatistics> statistics;
  const ParameterRecord* record = nullptr;  // of a parameter or its gradient; null: none
  // The shape of the whole where other rows of this side told it, which outlives the pieces; null:
  // none did.
  const Shape* whole = nullptr;
  // What the tensor must be like where the layout is recorded or other rows told it.
  std::array<std::optional<Spread>, kAxisCount> expected;
  double scale = 1;  // the values of this side times this are those of the whole
  double unit = 0;   // the unit roundoff of the dtype that the pieces are rounded to

  // All pieces along this axis are equal, as far as statistics show.
  bool AreEqualAlong(Axis axis) const;
};

struct Spreads {
  Placement npu;
  Placement bench;
  bool fits = false;         // both wholes have one shape
  bool is_padded = false;    // but for one dimension, along which one side has more
  bool is_doubtful = false;  // shapes fit, but equal pieces would be parts, or wholes are apart
  std::array<bool, 2> ignores_record{};  // npu, bench: the record contradicts what was found
};

// What is not known of one side is decided together with the other one: the wholes must have equal
// shapes, and their statistics should be equal.
Spreads InferSpreads(const Pieces& npu, const Pieces& bench);

// For a tensor that only one side has: from its record, or because all pieces are equal.
Placement InferAlone(const Pieces& pieces);

// How far apart two wholes are relative to their scale; nullopt where nothing can be compared.
std::optional<double> StatisticsApart(const PieceStatistics& a, const PieceStatistics& b);

}  // namespace msprobe::layout
