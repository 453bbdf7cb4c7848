#include "src/layout/whole_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/tensor_buffer.h"

namespace msprobe::layout {
namespace {

constexpr auto kInnerAxis = static_cast<size_t>(Axis::kTensor);
constexpr auto kReplicaAxis = static_cast<size_t>(Axis::kData);

Placement OnAxis(size_t axis, int64_t parts, Spread spread) {
  Placement placement;
  placement.grid[axis] = parts;
  placement.spreads[axis] = std::move(spread);
  return placement;
}

Spread CutAlong(int64_t dimension, PartOrder order = PartOrder::kContiguous, int64_t blocks = 1) {
  return {SpreadKind::kShard, dimension, order, blocks, {}, false};
}

// The whole of float32 pieces.
std::vector<float> Assembled(const Placement& placement, const Shape& shape,
                             const std::vector<std::vector<float>>& pieces) {
  const Result<WholeTensor> whole =
      WholeTensor::Make(placement, [&](size_t piece) -> Result<TensorView> {
        return tensor::RowMajorView(DType::kFloat32, shape,
                                    std::as_bytes(std::span(pieces[piece])));
      });
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  if (!whole.ok()) {
    return {};
  }
  std::vector<float> values(static_cast<size_t>(whole->element_count()));
  whole->Copy(0, whole->element_count(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(WholeTensor, JoinsPartsInEveryOrder) {
  const std::vector<std::vector<float>> pieces = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, CutAlong(0)), {4}, pieces),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, CutAlong(0, PartOrder::kBlocks, 2)), {4}, pieces),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, CutAlong(0, PartOrder::kZigzag)), {4}, pieces),
            (std::vector<float>{0, 1, 4, 5, 6, 7, 2, 3}));
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, CutAlong(0, PartOrder::kInterleaved)), {4}, pieces),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, CutAlong(1)), {2, 2}, pieces),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(WholeTensor, SumsInDoubleAndRoundsOnce) {
  const std::vector<std::vector<float>> pieces = {{1e8F, 1}, {1, 2}, {-1e8F, 3}};
  EXPECT_EQ(
      Assembled(OnAxis(kInnerAxis, 3, {SpreadKind::kPartial, 0, {}, 1, {}, false}), {2}, pieces),
      (std::vector<float>{1, 6}));
  EXPECT_EQ(Assembled(OnAxis(kReplicaAxis, 3, {SpreadKind::kPartial, 0, {}, 1, {}, true}), {2},
                      pieces)[1],
            2);
}

TEST(WholeTensor, JoinsSeveralAxes) {
  Placement placement = OnAxis(kInnerAxis, 2, CutAlong(1));
  placement.grid[kReplicaAxis] = 2;
  placement.spreads[kReplicaAxis] = CutAlong(0);
  EXPECT_EQ(Assembled(placement, {1, 2}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(WholeTensor, MicroBatchesMayBePartsOfWhatAReplicaHas) {
  Placement placement = OnAxis(0, 2, CutAlong(0));
  placement.grid[kReplicaAxis] = 2;
  placement.spreads[kReplicaAxis] = CutAlong(0);
  const std::vector<std::vector<float>> pieces = {{0}, {1}, {2}, {3}};
  EXPECT_EQ(Assembled(placement, {1}, pieces), (std::vector<float>{0, 1, 2, 3}));
  placement.data_outside = true;
  EXPECT_EQ(Assembled(placement, {1}, pieces), (std::vector<float>{0, 2, 1, 3}));
}

// ---- against the definition ----

// A tensor element by element, as the definition has it: nothing of it is what the program does.
struct Dense {
  Shape shape;
  std::vector<double> values;  // row-major
};

size_t PlaceOf(const Shape& shape, const Shape& index) {
  size_t place = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    place = place * static_cast<size_t>(shape[axis]) + static_cast<size_t>(index[axis]);
  }
  return place;
}

Shape IndexOf(const Shape& shape, size_t place) {
  Shape index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = static_cast<int64_t>(place % static_cast<size_t>(shape[axis]));
    place /= static_cast<size_t>(shape[axis]);
  }
  return index;
}

// Where index `at` of the whole lies: the part, and the index in it.
std::pair<size_t, int64_t> Holder(const Spread& spread, const std::vector<Dense>& parts,
                                  int64_t at) {
  const auto count = static_cast<int64_t>(parts.size());
  const auto dimension = static_cast<size_t>(spread.dimension);
  const int64_t own = parts[0].shape[dimension];
  switch (spread.order) {
    case PartOrder::kContiguous:
      for (size_t part = 0;; ++part) {
        if (at < parts[part].shape[dimension]) {
          return {part, at};
        }
        at -= parts[part].shape[dimension];
      }
    case PartOrder::kBlocks: {
      int64_t before = 0;
      for (int64_t block = 0;; ++block) {
        const int64_t size = spread.block_sizes.empty()
                                 ? own * count / spread.blocks
                                 : spread.block_sizes[static_cast<size_t>(block)];
        if (at < size) {
          return {static_cast<size_t>(at / (size / count)), before / count + at % (size / count)};
        }
        at -= size;
        before += size;
      }
    }
    case PartOrder::kZigzag: {
      const int64_t chunk = at / (own / 2);
      return chunk < count
                 ? std::pair{static_cast<size_t>(chunk), at % (own / 2)}
                 : std::pair{static_cast<size_t>(2 * count - 1 - chunk), own / 2 + at % (own / 2)};
    }
    case PartOrder::kInterleaved:
      return {static_cast<size_t>(at % count), at / count};
  }
  return {0, 0};
}

Dense Joined(const Spread& spread, const std::vector<Dense>& parts) {
  if (spread.kind == SpreadKind::kReplicated) {
    return parts[0];
  }
  Dense whole = parts[0];
  if (spread.kind == SpreadKind::kPartial) {
    for (size_t i = 0; i < whole.values.size(); ++i) {
      double sum = 0;
      for (const Dense& part : parts) {
        sum += part.values[i];
      }
      whole.values[i] =
          static_cast<float>(spread.is_mean ? sum / static_cast<double>(parts.size()) : sum);
    }
    return whole;
  }
  const auto dimension = static_cast<size_t>(spread.dimension);
  whole.shape[dimension] = 0;
  for (const Dense& part : parts) {
    whole.shape[dimension] += part.shape[dimension];
  }
  whole.values.resize(static_cast<size_t>(ElementCount(whole.shape)));
  for (size_t place = 0; place < whole.values.size(); ++place) {
    Shape index = IndexOf(whole.shape, place);
    const auto [part, at] = Holder(spread, parts, index[dimension]);
    index[dimension] = at;
    whole.values[place] = parts[part].values[PlaceOf(parts[part].shape, index)];
  }
  return whole;
}

Dense Defined(const Placement& placement, std::vector<Dense> pieces) {
  std::vector<size_t> axes = {3, 2, 1, 0};  // from the innermost outwards
  if (placement.data_outside) {
    // Data becomes the outermost axis: the pieces in that order.
    std::vector<Dense> sorted;
    const auto inner = static_cast<size_t>(placement.grid[2] * placement.grid[3]);
    for (int64_t data = 0; data < placement.grid[1]; ++data) {
      for (int64_t batch = 0; batch < placement.grid[0]; ++batch) {
        for (size_t i = 0; i < inner; ++i) {
          sorted.push_back(
              pieces[static_cast<size_t>(batch * placement.grid[1] + data) * inner + i]);
        }
      }
    }
    pieces = std::move(sorted);
    axes = {3, 2, 0, 1};
  }
  for (const size_t axis : axes) {
    const auto size = static_cast<size_t>(placement.grid[axis]);
    std::vector<Dense> outer;
    for (size_t first = 0; first < pieces.size(); first += size) {
      outer.push_back(size == 1 ? pieces[first]
                                : Joined(placement.spreads[axis],
                                         {pieces.begin() + static_cast<ptrdiff_t>(first),
                                          pieces.begin() + static_cast<ptrdiff_t>(first + size)}));
    }
    pieces = std::move(outer);
  }
  return pieces[0];
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  Spread NextSpread(size_t rank) {
    Spread spread;
    switch (Below(4)) {
      case 0:
        return spread;
      case 1:
        spread.kind = SpreadKind::kPartial;
        spread.is_mean = Below(2) == 0;
        return spread;
      default:
        spread.kind = SpreadKind::kShard;
        spread.dimension = Below(static_cast<int64_t>(rank));
        spread.order = static_cast<PartOrder>(Below(4));
        spread.blocks = spread.order == PartOrder::kBlocks ? 1 + Below(3) : 1;
        return spread;
    }
  }

 private:
  std::mt19937_64 random_;
};

// Every run of elements of random placements equals the definition, in the file's order of bytes,
// through strides, scaled and cut.
TEST(WholeTensor, IsWhatItsPlacementDefines) {
  constexpr int kPlacements = 600;
  int made = 0;
  int joined = 0;
  for (uint64_t seed = 0; made < kPlacements; ++seed) {
    ASSERT_LT(seed, 20U * kPlacements);
    Draws draws(seed);
    const auto rank = static_cast<size_t>(1 + draws.Below(3));
    Placement placement;
    placement.data_outside = draws.Below(2) == 0;
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      placement.grid[axis] = 1 + draws.Below(3);
      placement.spreads[axis] = draws.NextSpread(rank);
    }
    Shape shape;
    for (size_t axis = 0; axis < rank; ++axis) {
      shape.push_back(draws.Below(8) == 0 ? 0 : 1 + draws.Below(6));
    }
    const std::vector<Shape> shapes(placement.piece_count(), shape);
    const std::optional<Shape> whole_shape = WholeShape(placement, shapes);
    const bool other_order = placement.data_outside && placement.grid[0] > 1 &&
                             placement.grid[1] > 1 &&
                             (placement.spreads[0].order != PartOrder::kContiguous ||
                              placement.spreads[1].order != PartOrder::kContiguous);
    if (!whole_shape || other_order) {  // sizes may not fit in that order
      continue;
    }
    ++made;
    std::vector<Dense> pieces;
    std::vector<std::vector<float>> stored;
    const bool transposed = draws.Below(2) == 0 && rank == 2;
    for (size_t piece = 0; piece < shapes.size(); ++piece) {
      Dense& dense = pieces.emplace_back(Dense{shape, {}});
      std::vector<float>& values = stored.emplace_back(static_cast<size_t>(ElementCount(shape)));
      for (size_t i = 0; i < values.size(); ++i) {
        dense.values.push_back(static_cast<float>(std::ldexp(
            static_cast<double>(draws.Below(1 << 24)), static_cast<int>(draws.Below(8)))));
      }
      for (size_t i = 0; i < values.size(); ++i) {
        const Shape index = IndexOf(shape, i);
        values[transposed ? PlaceOf({shape[1], shape[0]}, {index[1], index[0]}) : i] =
            static_cast<float>(dense.values[i]);
      }
    }
    const OpenPiece open = [&](size_t piece) -> Result<TensorView> {
      TensorView view =
          tensor::RowMajorView(DType::kFloat32, shape, std::as_bytes(std::span(stored[piece])));
      if (transposed) {
        view.strides = {1, shape[0]};
      }
      return view;
    };
    const double scale = draws.Below(2) == 0 ? 1 : 0.3;
    std::optional<Shape> cut;
    Dense expected = Defined(placement, pieces);
    ASSERT_EQ(expected.shape, *whole_shape);
    for (double& value : expected.values) {
      value = scale == 1 ? value : static_cast<float>(value * scale);
    }
    if (draws.Below(2) == 0 && ElementCount(*whole_shape) > 0) {
      cut = *whole_shape;
      Dense part;
      for (int64_t& size : *cut) {
        size = 1 + draws.Below(size);
      }
      part.shape = *cut;
      for (size_t place = 0; place < static_cast<size_t>(ElementCount(*cut)); ++place) {
        part.values.push_back(expected.values[PlaceOf(*whole_shape, IndexOf(*cut, place))]);
      }
      expected = std::move(part);
    }
    const Result<WholeTensor> whole = WholeTensor::Make(placement, open, scale, cut);
    ASSERT_TRUE(whole.ok()) << seed << whole.status().message();
    ASSERT_EQ(whole->shape(), expected.shape);
    const int64_t count = whole->element_count();
    joined += count > 0 && placement.piece_count() > 1 ? 1 : 0;
    for (int run = 0; run < 4 && count > 0; ++run) {
      const int64_t first = run == 0 ? 0 : draws.Below(count);
      const int64_t size = run == 0 ? count : 1 + draws.Below(count - first);
      std::vector<float> values(static_cast<size_t>(size));
      whole->Copy(first, size, reinterpret_cast<std::byte*>(values.data()));
      for (int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(values[static_cast<size_t>(i)], expected.values[static_cast<size_t>(first + i)])
            << "seed " << seed << ", element " << first + i;
      }
    }
  }
  EXPECT_GT(joined, kPlacements / 2);
}

TEST(WholeTensor, UnevenPartsAndBlocksOfOtherSizes) {
  const std::vector<std::vector<float>> pieces = {{0, 1, 2}, {3}};
  const Result<WholeTensor> uneven = WholeTensor::Make(
      OnAxis(kInnerAxis, 2, CutAlong(0)), [&](size_t piece) -> Result<TensorView> {
        return tensor::RowMajorView(DType::kFloat32, {static_cast<int64_t>(pieces[piece].size())},
                                    std::as_bytes(std::span(pieces[piece])));
      });
  ASSERT_TRUE(uneven.ok());
  EXPECT_EQ(uneven->shape(), (Shape{4}));
  Spread spread = CutAlong(0, PartOrder::kBlocks, 2);
  spread.block_sizes = {4, 2};
  EXPECT_EQ(Assembled(OnAxis(kInnerAxis, 2, spread), {3}, {{0, 1, 2}, {3, 4, 5}}),
            (std::vector<float>{0, 1, 3, 4, 2, 5}));
}

TEST(WholeTensor, OnePieceIsReadWhereItLies) {
  const std::vector<float> piece = {1, 2};
  const Result<WholeTensor> whole =
      WholeTensor::Make(OnAxis(kInnerAxis, 4, {}), [&](size_t number) -> Result<TensorView> {
        EXPECT_EQ(number, 0U);  // copies are not opened
        return tensor::RowMajorView(DType::kFloat32, {2}, std::as_bytes(std::span(piece)));
      });
  ASSERT_TRUE(whole.ok());
  ASSERT_NE(whole->piece(), nullptr);
  EXPECT_EQ(whole->piece()->data, reinterpret_cast<const std::byte*>(piece.data()));
}

TEST(WholeTensor, RefusesWhatDoesNotFit) {
  const std::vector<int32_t> numbers = {1, 2};
  const auto make = [&](const Placement& placement, DType second) {
    return WholeTensor::Make(placement, [&](size_t piece) -> Result<TensorView> {
      return tensor::RowMajorView(piece == 0 ? DType::kInt32 : second, {2},
                                  std::as_bytes(std::span(numbers)));
    });
  };
  EXPECT_TRUE(make(OnAxis(kInnerAxis, 2, CutAlong(0)), DType::kInt32).ok());
  EXPECT_FALSE(make(OnAxis(kInnerAxis, 2, CutAlong(0)), DType::kFloat32).ok());
  EXPECT_FALSE(make(OnAxis(kInnerAxis, 2, CutAlong(1)), DType::kInt32).ok());
  EXPECT_FALSE(
      make(OnAxis(kInnerAxis, 2, {SpreadKind::kPartial, 0, {}, 1, {}, false}), DType::kInt32).ok());
  EXPECT_FALSE(
      make(OnAxis(kInnerAxis, 2, {SpreadKind::kUnknown, 0, {}, 1, {}, false}), DType::kInt32).ok());
  EXPECT_FALSE(WholeTensor::Make(
                   Placement(),
                   [&](size_t) -> Result<TensorView> {
                     return tensor::RowMajorView(DType::kInt32, {2},
                                                 std::as_bytes(std::span(numbers)));
                   },
                   1, Shape{3})
                   .ok());
}

}  // namespace
}  // namespace msprobe::layout
