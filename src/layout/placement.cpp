// How a whole tensor is made of its pieces.
//
// Every combination goes axis by axis, from the innermost outwards: the pieces along the innermost
// axis become one, these along the next axis, and so on. Statistics, shapes and elements all follow
// the same walk (Fold; of elements whole_tensor.cpp). Along the dimension of a shard a run of the
// whole lies in one piece, whatever the order of the parts.
#include "src/layout/placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace msprobe::layout {
namespace {

int64_t SpreadCount(const Placement& placement, SpreadKind kind) {
  int64_t count = 1;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    count *= placement.spreads[axis].kind == kind ? placement.grid[axis] : 1;
  }
  return count;
}

// Combines the items along one axis after the other, the innermost first. `combine(spread, parts)`
// returns what they make.
template <typename Item, typename Combine>
std::optional<Item> Fold(const Placement& placement, std::vector<Item> items,
                         const Combine& combine) {
  if (items.size() != placement.piece_count() || items.empty()) {
    return std::nullopt;
  }
  for (size_t axis = kAxisCount; axis-- > 0;) {
    const auto size = static_cast<size_t>(placement.grid[axis]);
    if (size == 1) {
      continue;
    }
    std::vector<Item> outer;
    outer.reserve(items.size() / size);
    for (size_t first = 0; first < items.size(); first += size) {
      std::optional<Item> made =
          combine(placement.spreads[axis], std::span(items).subspan(first, size));
      if (!made) {
        return std::nullopt;
      }
      outer.push_back(*std::move(made));
    }
    items = std::move(outer);
  }
  return std::move(items.front());
}

PieceStatistics CombineAlong(const Spread& spread, std::span<PieceStatistics> pieces) {
  if (spread.kind == SpreadKind::kReplicated) {
    return pieces[0];
  }
  PieceStatistics whole;
  if (spread.kind == SpreadKind::kUnknown) {
    return whole;
  }
  const auto all_have = [&](size_t stat) {
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const PieceStatistics& piece) { return piece.values[stat]; });
  };
  if (spread.kind == SpreadKind::kPartial) {
    whole.elements = pieces[0].elements;
    const bool is_single = whole.elements == 1;
    for (size_t stat = 0; stat < 4; ++stat) {
      if (!all_have(stat) || !(stat == 2 || is_single)) {
        continue;
      }
      double sum = 0;
      for (const PieceStatistics& piece : pieces) {
        // Max of one element is the value itself; its Norm has lost the sign.
        sum += stat == 3 && piece.values[0] ? *piece.values[0] : *piece.values[stat];
      }
      sum /= spread.is_mean ? static_cast<double>(pieces.size()) : 1;
      whole.values[stat] = stat == 3 ? std::fabs(sum) : sum;
    }
    return whole;
  }
  double squares = 0;
  double sum = 0;
  double largest = -HUGE_VAL;
  double smallest = HUGE_VAL;
  bool has_nan = false;
  for (const PieceStatistics& piece : pieces) {
    whole.elements += piece.elements;
    if (piece.elements == 0) {
      continue;
    }
    const double max = piece.values[0].value_or(0);
    const double min = piece.values[1].value_or(0);
    has_nan = has_nan || std::isnan(max) || std::isnan(min);
    largest = std::max(largest, max);
    smallest = std::min(smallest, min);
    sum += piece.values[2].value_or(0) * piece.elements;
    squares += piece.values[3].value_or(0) * piece.values[3].value_or(0);
  }
  const double nan = std::nan("");
  const double combined[] = {has_nan ? nan : largest, has_nan ? nan : smallest,
                             sum / whole.elements, std::sqrt(squares)};
  for (size_t stat = 0; stat < 4; ++stat) {
    const bool known = std::all_of(pieces.begin(), pieces.end(), [&](const PieceStatistics& piece) {
      return piece.elements == 0 || piece.values[stat];
    });
    if (known && whole.elements > 0) {
      whole.values[stat] = combined[stat];
    }
  }
  return whole;
}

void AppendPart(std::string& text, std::string part) {
  text += text.empty() ? "" : " + ";
  text += part;
}

}  // namespace

size_t Placement::piece_count() const {
  return static_cast<size_t>(
      std::accumulate(grid.begin(), grid.end(), int64_t{1}, std::multiplies<>()));
}

bool Placement::IsKnown() const { return SpreadCount(*this, SpreadKind::kUnknown) == 1; }

bool Placement::HasPartial() const { return SpreadCount(*this, SpreadKind::kPartial) > 1; }

std::string Placement::Text() const {
  if (!IsKnown()) {
    return "unknown";
  }
  std::string text;
  if (const int64_t copies = SpreadCount(*this, SpreadKind::kReplicated); copies > 1) {
    text = fmt::format("replicated x{}", copies);
  }
  struct Shard {
    int64_t parts = 1;
    int64_t blocks = 1;
  };
  std::map<int64_t, Shard> shards;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const Spread& spread = spreads[axis];
    if (spread.kind == SpreadKind::kShard && grid[axis] > 1) {
      Shard& shard = shards[spread.dimension];
      shard.parts *= grid[axis];
      shard.blocks = std::max(shard.blocks, spread.order == PartOrder::kBlocks ? spread.blocks : 1);
    }
  }
  for (const auto& [dimension, shard] : shards) {
    AppendPart(text, fmt::format("shard dim {} x{}{}", dimension, shard.parts,
                                 shard.blocks > 1 ? fmt::format(" blocks {}", shard.blocks) : ""));
  }
  if (const int64_t summands = SpreadCount(*this, SpreadKind::kPartial); summands > 1) {
    AppendPart(text, fmt::format("partial x{}", summands));
  }
  if (stage) {
    AppendPart(text, fmt::format("stage {}", *stage));
  }
  if (only_rank) {
    AppendPart(text, fmt::format("rank {}", *only_rank));
  }
  if (text.empty()) {
    text = "whole";
  }
  if (padded_to) {
    AppendPart(text, fmt::format("padded to {}", *padded_to));
  }
  return text;
}

PieceStatistics CombineStatistics(const Placement& placement,
                                  std::span<const PieceStatistics> pieces) {
  return Fold(placement, std::vector<PieceStatistics>(pieces.begin(), pieces.end()),
              [](const Spread& spread, std::span<PieceStatistics> parts) {
                return std::optional(CombineAlong(spread, parts));
              })
      .value_or(PieceStatistics());
}

namespace {

bool IsContiguous(const Placement& placement) {
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const Spread& spread = placement.spreads[axis];
    if (placement.grid[axis] > 1 &&
        (spread.kind == SpreadKind::kUnknown ||
         (spread.kind == SpreadKind::kShard && spread.order != PartOrder::kContiguous))) {
      return false;
    }
  }
  return true;
}

// Pieces of one shape need no walk: most rows of many ranks.
std::optional<Shape> Multiplied(const Placement& placement, Shape whole) {
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const Spread& spread = placement.spreads[axis];
    if (spread.kind != SpreadKind::kShard || placement.grid[axis] == 1) {
      continue;
    }
    const auto dimension = static_cast<size_t>(spread.dimension);
    if (dimension >= whole.size() ||
        __builtin_mul_overflow(whole[dimension], placement.grid[axis], &whole[dimension])) {
      return std::nullopt;
    }
  }
  int64_t elements = 1;
  for (const int64_t size : whole) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return std::nullopt;
    }
  }
  return whole;
}

}  // namespace

std::optional<Shape> WholeShape(const Placement& placement, std::span<const Shape> pieces) {
  if (!pieces.empty() && pieces.size() == placement.piece_count() && IsContiguous(placement) &&
      std::all_of(pieces.begin(), pieces.end(),
                  [&](const Shape& shape) { return shape == pieces[0]; })) {
    return Multiplied(placement, pieces[0]);
  }
  return Fold(
      placement, std::vector<Shape>(pieces.begin(), pieces.end()),
      [](const Spread& spread, std::span<const Shape> parts) { return JoinShapes(spread, parts); });
}

std::optional<std::vector<PartRun>> RunsOf(const Spread& spread, std::span<const int64_t> sizes) {
  const size_t parts = sizes.size();
  const auto count = static_cast<int64_t>(parts);
  const bool equal =
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; });
  std::vector<PartRun> runs;
  switch (spread.order) {
    case PartOrder::kContiguous:
      for (size_t part = 0; part < parts; ++part) {
        runs.push_back({part, 0, sizes[part]});
      }
      return runs;
    case PartOrder::kBlocks: {
      if (spread.blocks < 1) {
        return std::nullopt;
      }
      if (spread.block_sizes.empty()) {  // each part has as much of every block
        for (int64_t block = 0; block < spread.blocks; ++block) {
          for (size_t part = 0; part < parts; ++part) {
            if (sizes[part] % spread.blocks != 0) {
              return std::nullopt;
            }
            const int64_t size = sizes[part] / spread.blocks;
            runs.push_back({part, block * size, size});
          }
        }
        return runs;
      }
      int64_t first = 0;
      for (const int64_t block : spread.block_sizes) {
        if (!equal || block % count != 0) {
          return std::nullopt;
        }
        for (size_t part = 0; part < parts; ++part) {
          runs.push_back({part, first, block / count});
        }
        first += block / count;
      }
      return first == sizes[0] ? std::optional(std::move(runs)) : std::nullopt;
    }
    case PartOrder::kZigzag:
      if (!equal || sizes[0] % 2 != 0) {
        return std::nullopt;
      }
      for (size_t part = 0; part < parts; ++part) {
        runs.push_back({part, 0, sizes[0] / 2});
      }
      for (size_t part = parts; part-- > 0;) {
        runs.push_back({part, sizes[0] / 2, sizes[0] / 2});
      }
      return runs;
    case PartOrder::kInterleaved:
      if (!equal) {
        return std::nullopt;
      }
      for (size_t part = 0; part < parts; ++part) {
        runs.push_back({part, 0, 1});
      }
      return runs;
  }
  return std::nullopt;
}

std::optional<Shape> JoinShapes(const Spread& spread, std::span<const Shape> pieces,
                                ElementRuns* runs) {
  Shape whole = pieces[0];
  const auto dimension = static_cast<size_t>(spread.dimension);
  if (spread.kind != SpreadKind::kShard) {
    const bool equal = std::all_of(pieces.begin(), pieces.end(),
                                   [&](const Shape& shape) { return shape == whole; });
    return equal && spread.kind != SpreadKind::kUnknown ? std::optional(whole) : std::nullopt;
  }
  if (dimension >= whole.size()) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const Shape& shape : pieces) {
    if (shape.size() != whole.size()) {
      return std::nullopt;
    }
    for (size_t axis = 0; axis < whole.size(); ++axis) {
      if (axis != dimension && shape[axis] != whole[axis]) {
        return std::nullopt;
      }
    }
    sizes.push_back(shape[dimension]);
  }
  const std::optional<std::vector<PartRun>> order = RunsOf(spread, sizes);
  if (!order) {
    return std::nullopt;
  }
  int64_t size = 0;
  for (const int64_t part : sizes) {
    if (__builtin_add_overflow(size, part, &size)) {
      return std::nullopt;
    }
  }
  whole[dimension] = size;
  int64_t elements = 1;
  for (const int64_t axis : whole) {
    if (__builtin_mul_overflow(elements, axis, &elements)) {
      return std::nullopt;
    }
  }
  if (runs == nullptr) {
    return whole;
  }
  *runs = {};
  int64_t columns = 1;  // elements of an index of the dimension
  for (size_t axis = dimension + 1; axis < whole.size(); ++axis) {
    columns *= whole[axis];
  }
  // Parts dealt out are parts of one index each, beside each other in shorter rows.
  const bool by_index = spread.order == PartOrder::kInterleaved;
  for (const int64_t part : sizes) {
    runs->parts.push_back((by_index ? 1 : part) * columns);
  }
  for (const PartRun& run : *order) {
    if (run.count > 0) {
      runs->runs.push_back({run.part, run.first * columns, runs->row, run.count * columns});
      runs->row += run.count * columns;
    }
  }
  return whole;
}

}  // namespace msprobe::layout
