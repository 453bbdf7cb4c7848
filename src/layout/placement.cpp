// How a whole tensor is made of its pieces.
//
// Every combination goes axis by axis, from the innermost outwards: the pieces along the innermost
// axis become one, these along the next axis, and so on. Statistics, shapes and elements all follow
// the same walk (Fold). Elements are copied run by run: along the dimension of a shard a run of the
// whole lies in one piece, whatever the order of the parts.
#include "src/layout/placement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/kernels/convert.h"

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

std::optional<Shape> ShapeAlong(const Spread& spread, std::span<const Shape> shapes) {
  Shape whole = shapes[0];
  const auto dimension = static_cast<size_t>(spread.dimension);
  if (spread.kind != SpreadKind::kShard) {
    const bool equal = std::all_of(shapes.begin(), shapes.end(),
                                   [&](const Shape& shape) { return shape == whole; });
    return equal && spread.kind != SpreadKind::kUnknown ? std::optional(whole) : std::nullopt;
  }
  if (dimension >= whole.size()) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const Shape& shape : shapes) {
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
  if (!RunsOf(spread, sizes)) {
    return std::nullopt;
  }
  int64_t size = 0;
  for (const int64_t part : sizes) {
    if (__builtin_add_overflow(size, part, &size)) {
      return std::nullopt;
    }
  }
  whole[dimension] = size;
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

std::optional<Shape> WholeShape(const Placement& placement, std::span<const Shape> pieces) {
  return Fold(
      placement, std::vector<Shape>(pieces.begin(), pieces.end()),
      [](const Spread& spread, std::span<const Shape> parts) { return ShapeAlong(spread, parts); });
}

std::optional<std::vector<PartRun>> RunsOf(const Spread& spread, std::span<const int64_t> sizes) {
  const auto parts = static_cast<int64_t>(sizes.size());
  const bool equal =
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; });
  std::vector<PartRun> runs;
  switch (spread.order) {
    case PartOrder::kContiguous:
      for (int64_t part = 0; part < parts; ++part) {
        runs.push_back({part, 0, sizes[static_cast<size_t>(part)]});
      }
      return runs;
    case PartOrder::kBlocks: {
      if (!equal || spread.blocks < 1) {
        return std::nullopt;
      }
      std::vector<int64_t> block_sizes = spread.block_sizes;
      if (block_sizes.empty()) {
        if (sizes[0] % spread.blocks != 0) {
          return std::nullopt;
        }
        block_sizes.assign(static_cast<size_t>(spread.blocks), sizes[0] / spread.blocks * parts);
      }
      int64_t first = 0;
      for (const int64_t block : block_sizes) {
        if (block % parts != 0) {
          return std::nullopt;
        }
        for (int64_t part = 0; part < parts; ++part) {
          runs.push_back({part, first, block / parts});
        }
        first += block / parts;
      }
      return first == sizes[0] ? std::optional(std::move(runs)) : std::nullopt;
    }
    case PartOrder::kZigzag:
      if (!equal || sizes[0] % 2 != 0) {
        return std::nullopt;
      }
      for (int64_t part = 0; part < parts; ++part) {
        runs.push_back({part, 0, sizes[0] / 2});
      }
      for (int64_t part = parts; part-- > 0;) {
        runs.push_back({part, sizes[0] / 2, sizes[0] / 2});
      }
      return runs;
    case PartOrder::kInterleaved:
      if (!equal || sizes[0] > (int64_t{1} << 20U)) {
        return std::nullopt;
      }
      for (int64_t element = 0; element < sizes[0]; ++element) {
        for (int64_t part = 0; part < parts; ++part) {
          runs.push_back({part, element, 1});
        }
      }
      return runs;
  }
  return std::nullopt;
}

namespace {

// Row-major bytes that become part of a larger tensor.
struct Block {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<std::byte> bytes;
};

Result<Block> OpenBlock(const OpenPiece& open, size_t piece, size_t limit_bytes) {
  MSP_ASSIGN_OR_RETURN(const TensorView view, open(piece));
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer, tensor::MakeContiguous(view, limit_bytes));
  return Block{view.dtype, view.shape, std::move(buffer).TakeBytes()};
}

Result<Block> Concatenate(const Spread& spread, std::vector<Block> parts, size_t limit_bytes) {
  std::vector<Shape> shapes;
  std::vector<int64_t> sizes;
  for (const Block& part : parts) {
    shapes.push_back(part.shape);
    if (part.dtype != parts[0].dtype) {
      return MismatchError("pieces of a tensor have different dtypes");
    }
  }
  const std::optional<Shape> shape = ShapeAlong(spread, shapes);
  if (!shape) {
    return MismatchError("pieces of a tensor do not fit each other");
  }
  const auto dimension = static_cast<size_t>(spread.dimension);
  for (const Shape& part : shapes) {
    sizes.push_back(part[dimension]);
  }
  const size_t item = DTypeSize(parts[0].dtype);
  int64_t rows = 1;
  int64_t columns = 1;
  for (size_t axis = 0; axis < shape->size(); ++axis) {
    (axis < dimension ? rows : columns) *= axis == dimension ? 1 : (*shape)[axis];
  }
  Block whole{parts[0].dtype, *shape, {}};
  const auto bytes = static_cast<size_t>(ElementCount(*shape)) * item;
  if (bytes > limit_bytes) {
    return UnsupportedError("a joined tensor is larger than any that is read");
  }
  whole.bytes.resize(bytes);
  const std::vector<PartRun> runs = *RunsOf(spread, sizes);
  const size_t unit = static_cast<size_t>(columns) * item;
  std::byte* to = whole.bytes.data();
  for (int64_t row = 0; row < rows; ++row) {
    for (const PartRun& run : runs) {
      const auto part = static_cast<size_t>(run.part);
      const size_t count = static_cast<size_t>(run.count) * unit;
      if (count > 0) {
        std::memcpy(
            to,
            parts[part].bytes.data() + static_cast<size_t>(row * sizes[part] + run.first) * unit,
            count);
      }
      to += count;
    }
  }
  return whole;
}

// float64 stays, what is narrower becomes float32.
Block FromDoubles(std::span<const double> values, DType dtype, const Shape& shape) {
  Block block{dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, shape, {}};
  const auto store = [&](auto zero) {
    using Value = decltype(zero);
    block.bytes.resize(values.size() * sizeof(Value));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<Value>(values[i]);
      std::memcpy(block.bytes.data() + i * sizeof(Value), &value, sizeof(Value));
    }
  };
  if (block.dtype == DType::kFloat64) {
    store(0.0);
  } else {
    store(0.0F);
  }
  return block;
}

// Sums in float64, so that their order does not show.
Result<Block> Sum(const Spread& spread, const std::vector<Block>& parts) {
  const size_t bytes = parts[0].bytes.size();
  const DType dtype = parts[0].dtype;
  if (GetDTypeInfo(dtype).kind != DTypeKind::kFloat) {
    return UnsupportedError("only floating values are summed over ranks");
  }
  const size_t count = bytes / DTypeSize(dtype);
  std::vector<double> sums(count);
  std::vector<double> values(count);
  for (const Block& part : parts) {
    if (part.dtype != dtype || part.bytes.size() != bytes) {
      return MismatchError("summands of a tensor have different dtypes or shapes");
    }
    kernels::WidenToDouble(dtype, part.bytes, values);
    for (size_t i = 0; i < count; ++i) {
      sums[i] += values[i];
    }
  }
  for (double& sum : sums) {
    sum /= spread.is_mean ? static_cast<double>(parts.size()) : 1;
  }
  return FromDoubles(sums, dtype, parts[0].shape);
}

class Assembly {
 public:
  Assembly(const Placement& placement, const OpenPiece& open, size_t limit_bytes)
      : placement_(placement), open_(open), limit_bytes_(limit_bytes) {}

  // The pieces from `piece` on whose outer axes are fixed. Recursion is as deep as there are axes.
  Result<Block> Make(size_t level, size_t piece) {
    if (level == kAxisCount) {
      return OpenBlock(open_, piece, limit_bytes_);
    }
    const size_t axis = placement_.data_outside && level < 2 ? 1 - level : level;
    const auto size = static_cast<size_t>(placement_.grid[axis]);
    const Spread& spread = placement_.spreads[axis];
    if (size == 1 || spread.kind == SpreadKind::kReplicated) {
      return Make(level + 1, piece);
    }
    size_t stride = 1;
    for (size_t inner = axis + 1; inner < kAxisCount; ++inner) {
      stride *= static_cast<size_t>(placement_.grid[inner]);
    }
    std::vector<Block> parts;
    for (size_t i = 0; i < size; ++i) {
      MSP_ASSIGN_OR_RETURN(Block part, Make(level + 1, piece + i * stride));
      parts.push_back(std::move(part));
    }
    return spread.kind == SpreadKind::kPartial
               ? Sum(spread, parts)
               : Concatenate(spread, std::move(parts), limit_bytes_);
  }

 private:
  const Placement& placement_;
  const OpenPiece& open_;
  const size_t limit_bytes_;
};

}  // namespace

Result<tensor::TensorBuffer> AssembleWhole(const Placement& placement, const OpenPiece& open,
                                           size_t limit_bytes, double scale) {
  if (!placement.IsKnown()) {
    return UnsupportedError("how the ranks share this tensor is not known");
  }
  MSP_ASSIGN_OR_RETURN(Block whole, Assembly(placement, open, limit_bytes).Make(0, 0));
  if (scale != 1) {
    std::vector<double> values(whole.bytes.size() / DTypeSize(whole.dtype));
    if (GetDTypeInfo(whole.dtype).kind == DTypeKind::kFloat) {
      kernels::WidenToDouble(whole.dtype, whole.bytes, values);
      for (double& value : values) {
        value *= scale;
      }
      whole = FromDoubles(values, whole.dtype, whole.shape);
    }
  }
  tensor::TensorBuffer buffer(whole.dtype, whole.shape);
  if (!whole.bytes.empty()) {
    std::memcpy(buffer.mutable_bytes().data(), whole.bytes.data(), whole.bytes.size());
  }
  return buffer;
}

}  // namespace msprobe::layout
