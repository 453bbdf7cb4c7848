// A logical tensor and its pieces: what each of several ranks and micro-batches holds of one tensor
// of the whole model, and how the whole is made of them.
//
// The pieces of a tensor stand on a grid with four axes (Axis). Along each axis they are spread in
// one way (Spread): all equal, parts beside each other along a dimension of the tensor, or
// summands. Stages of a pipeline and experts are not axes: a tensor that only some ranks have is on
// the grid of those.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::layout {

// From the outermost to the innermost: micro-batches, data-parallel ranks (fully sharded ones,
// too), parts of the sequence, tensor-parallel ranks. The place of a piece counts the last one
// fastest.
enum class Axis : uint8_t { kMicroBatch, kData, kContext, kTensor };
inline constexpr size_t kAxisCount = 4;
using GridSize = std::array<int64_t, kAxisCount>;  // all at least 1

enum class SpreadKind : uint8_t { kReplicated, kShard, kPartial, kUnknown };

// The order of the parts of a shard along its dimension.
enum class PartOrder : uint8_t {
  kContiguous,   // part after part
  kBlocks,       // of fused projections: each part holds its slice of every block in turn
  kZigzag,       // of 2 n chunks part i holds i and 2 n - 1 - i
  kInterleaved,  // element j of part i is element j n + i: samples dealt out one by one
};

struct Spread {
  SpreadKind kind = SpreadKind::kReplicated;
  int64_t dimension = 0;  // of a shard
  PartOrder order = PartOrder::kContiguous;
  int64_t blocks = 1;
  std::vector<int64_t> block_sizes;  // in the whole; empty: equal ones
  bool is_mean = false;              // of a partial value: the whole is the mean of the pieces

  bool operator==(const Spread&) const = default;
};

struct Placement {
  GridSize grid = {1, 1, 1, 1};
  std::array<Spread, kAxisCount> spreads;
  // Where both cut one dimension: micro-batches are parts of what a replica of the data has, not
  // the other way around.
  bool data_outside = false;
  std::optional<int64_t> stage;      // where there are several
  std::optional<int64_t> only_rank;  // of several ranks the one that has it
  std::optional<int64_t> padded_to;  // along the dimension of the shard, or the first one

  size_t piece_count() const;
  bool IsKnown() const;
  bool HasPartial() const;
  // "replicated x2 + shard dim 0 x4 + stage 1", "whole", "unknown".
  std::string Text() const;
};

// What is known of all elements of a piece; a statistic that is not known is NaN-free and absent.
struct PieceStatistics {
  std::array<std::optional<double>, 4> values;  // Max, Min, Mean, Norm
  double elements = 0;
};

// Statistics of the whole from those of its pieces, in the order of the grid: the largest Max, the
// smallest Min, the mean weighted by elements, the root of the sum of squares. Of summands only the
// mean is known. Absent where a piece does not have them, or the placement is not known.
PieceStatistics CombineStatistics(const Placement& placement,
                                  std::span<const PieceStatistics> pieces);

// The shape of the whole; nullopt where the pieces do not fit each other.
std::optional<Shape> WholeShape(const Placement& placement, std::span<const Shape> pieces);

// The indices of the parts of a shard along its dimension, in the order of the whole.
struct PartRun {
  size_t part = 0;
  int64_t first = 0;  // in the part
  int64_t count = 0;
};
// `sizes`: of the parts. nullopt where the order does not fit them. Of parts dealt out one by one
// only the first index of each, which the others repeat.
std::optional<std::vector<PartRun>> RunsOf(const Spread& spread, std::span<const int64_t> sizes);

// The same in elements: row after row of the whole, and in each row run after run.
struct ElementRuns {
  struct Run {
    size_t part = 0;
    int64_t from = 0;   // in the part's row
    int64_t begin = 0;  // in the row of the whole
    int64_t count = 0;
  };
  std::vector<Run> runs;       // rising, without empty ones
  std::vector<int64_t> parts;  // elements of a row of each part
  int64_t row = 0;             // of the whole
};

// What the pieces along one axis make: their common shape, or that of the shards beside each other;
// nullopt where they do not fit. `runs` may be null; filled for shards.
std::optional<Shape> JoinShapes(const Spread& spread, std::span<const Shape> pieces,
                                ElementRuns* runs = nullptr);

}  // namespace msprobe::layout
