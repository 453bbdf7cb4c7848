// The bytes of a layout: block by block between the memory of the device and plain rows.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/io/kernel_dump/layout.h"
#include "src/io/kernel_dump/row_groups.h"
#include "src/kernels/transpose.h"

namespace msprobe::io::kernel_dump {
namespace {

// Plain tensors of this size leave the caches: they are written past them.
constexpr size_t kStreamedBytes = size_t{16} << 20U;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// One loop of a copy: `count` steps, each further by these strides on both sides.
struct Loop {
  int64_t count = 1;
  int64_t device_stride = 0;
  int64_t plain_stride = 0;
  // Of an outer digit: the inner one (an index into the loops) has `whole` steps, but `last` in the
  // last step of this loop.
  size_t inner = SIZE_MAX;
  int64_t whole = 0;
  int64_t last = 0;
};

// A run of elements that lie side by side in both. Most are as long as a block, for which the
// compiler knows a few instructions.
template <size_t kBytes>
void CopyRun(const std::byte* from, std::byte* to, int64_t count) {
  switch (count) {
    case 8:
      std::memcpy(to, from, 8 * kBytes);
      break;
    case 16:
      std::memcpy(to, from, 16 * kBytes);
      break;
    case 32:
      std::memcpy(to, from, 32 * kBytes);
      break;
    default:
      std::memcpy(to, from, static_cast<size_t>(count) * kBytes);
  }
}

// The two innermost loops.
template <size_t kBytes>
void CopyTile(const std::byte* from, int64_t from_outer, int64_t from_inner, std::byte* to,
              int64_t to_outer, int64_t to_inner, int64_t outer, int64_t inner) {
  constexpr auto kSize = static_cast<int64_t>(kBytes);
  if (from_inner == 1 && to_inner == 1) {
    for (int64_t i = 0; i < outer; ++i) {
      CopyRun<kBytes>(from + i * from_outer * kSize, to + i * to_outer * kSize, inner);
    }
  } else if (from_outer == 1 && to_inner == 1) {
    kernels::TransposeMatrix(kBytes, from, from_inner, to, to_outer, inner, outer);
  } else if (from_inner == 1 && to_outer == 1) {
    kernels::TransposeMatrix(kBytes, from, from_outer, to, to_inner, outer, inner);
  } else {
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        std::memcpy(to + (i * to_outer + j * to_inner) * kSize,
                    from + (i * from_outer + j * from_inner) * kSize, kBytes);
      }
    }
  }
}

template <size_t kBytes, bool kToPlain>
class BlockCopy {
 public:
  BlockCopy(std::vector<Loop> loops, const std::byte* from, std::byte* to)
      : loops_(std::move(loops)), from_(from), to_(to) {
    while (loops_.size() < 2) {
      loops_.insert(loops_.begin(), Loop());
    }
  }

  void Run() { Level(0, 0, 0); }

 private:
  void Level(size_t level, int64_t device, int64_t plain) {
    const Loop& loop = loops_[level];
    if (level + 2 == loops_.size()) {
      const Loop& inner = loops_[level + 1];
      if (loop.inner != level + 1) {
        Tile(loop, inner, device, plain, loop.count, inner.count);
        return;
      }
      // The last block may be shorter.
      const int64_t before = loop.count - 1;
      Tile(loop, inner, device, plain, before, loop.whole);
      Tile(loop, inner, device + before * loop.device_stride, plain + before * loop.plain_stride, 1,
           loop.last);
      return;
    }
    const int64_t count = loop.count;
    if (level + 3 == loops_.size() && loop.inner == level + 2) {
      RowsOfBlocks(loop, loops_[level + 1], loops_[level + 2], device, plain);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (loop.inner != SIZE_MAX) {
        loops_[loop.inner].count = i + 1 == count ? loop.last : loop.whole;
      }
      Level(level + 1, device + i * loop.device_stride, plain + i * loop.plain_stride);
    }
  }

  // Blocks beside each other in the plain rows, several per row at a time: whole cache lines of the
  // plain side, not parts of as many lines as there are rows.
  void RowsOfBlocks(const Loop& blocks, const Loop& rows, const Loop& inner, int64_t device,
                    int64_t plain) {
    constexpr int64_t kAtOnce = 4;
    const int64_t whole_blocks = blocks.count - 1;
    for (int64_t first = 0; first < whole_blocks; first += kAtOnce) {
      const int64_t now = std::min(kAtOnce, whole_blocks - first);
      for (int64_t row = 0; row < rows.count; ++row) {
        Tile(blocks, inner, device + first * blocks.device_stride + row * rows.device_stride,
             plain + first * blocks.plain_stride + row * rows.plain_stride, now, blocks.whole);
      }
    }
    Tile(rows, inner, device + whole_blocks * blocks.device_stride,
         plain + whole_blocks * blocks.plain_stride, rows.count, blocks.last);
  }

  void Tile(const Loop& outer, const Loop& inner, int64_t device, int64_t plain,
            int64_t outer_count, int64_t inner_count) {
    constexpr auto kSize = static_cast<int64_t>(kBytes);
    if constexpr (kToPlain) {
      CopyTile<kBytes>(from_ + device * kSize, outer.device_stride, inner.device_stride,
                       to_ + plain * kSize, outer.plain_stride, inner.plain_stride, outer_count,
                       inner_count);
    } else {
      CopyTile<kBytes>(from_ + plain * kSize, outer.plain_stride, inner.plain_stride,
                       to_ + device * kSize, outer.device_stride, inner.device_stride, outer_count,
                       inner_count);
    }
  }

  std::vector<Loop> loops_;
  const std::byte* from_;
  std::byte* to_;
};

// Outer digits in the order of the plain tensor, but for its last axis; then the inner digits; then
// the last axis: a tile that both sides hold in a few cache lines.
std::vector<Loop> LoopsOf(const Layout& layout) {
  const std::vector<BlockedAxis> axes = JoinedAxes(layout.axes);
  Shape extents;
  for (const BlockedAxis& axis : axes) {
    extents.push_back(axis.extent);
  }
  const Shape plain_strides = ContiguousStrides(extents);
  std::vector<Loop> outer;
  std::vector<Loop> inner;
  std::vector<size_t> outer_of;  // of each inner loop
  for (size_t i = 0; i < axes.size(); ++i) {
    const BlockedAxis& axis = axes[i];
    Loop whole;
    whole.count = (axis.extent + axis.block - 1) / axis.block;
    whole.device_stride = axis.outer_stride;
    whole.plain_stride = plain_strides[i] * axis.block;
    if (axis.block > 1) {
      whole.whole = axis.block;
      whole.last = axis.extent - (whole.count - 1) * axis.block;
      outer_of.push_back(outer.size());
      inner.push_back({axis.block, axis.inner_stride, plain_strides[i]});
    }
    outer.push_back(whole);
  }
  // The innermost loop is the one that writes runs: the last axis of the plain tensor, or its inner
  // digit.
  std::vector<Loop> loops;
  const bool last_is_split = !axes.empty() && axes.back().block > 1;
  std::vector<size_t> place(outer.size());
  for (size_t i = 0; i < outer.size(); ++i) {
    if (i + 1 < outer.size() || last_is_split) {
      place[i] = loops.size();
      loops.push_back(outer[i]);
    }
  }
  for (size_t i = 0; i < inner.size(); ++i) {
    loops[place[outer_of[i]]].inner = loops.size();
    loops.push_back(inner[i]);
  }
  if (!last_is_split) {
    loops.push_back(outer.empty() ? Loop() : outer.back());
  }
  return loops;
}

// A FRACTAL_Z weight with groups (Ascend's "grouped" FRACTAL_Z): `merge` groups lie beside each
// other in one block row, channels and filters of all of them counted on.
struct GroupedWeight {
  explicit GroupedWeight(const Layout& layout)
      : filters(layout.plain_shape[0] / layout.groups),
        channels(layout.plain_shape[1]),
        height(layout.plain_shape[2]),
        width(layout.plain_shape[3]),
        block(layout.group_block) {
    constexpr int64_t kFilterBlock = 16;
    merge = std::min<int64_t>(
        std::lcm(std::lcm(channels, block) / channels, std::lcm(filters, kFilterBlock) / filters),
        layout.groups);
    channel_blocks = RoundUp(merge * channels, block) / block;
    padded_filters = RoundUp(merge * filters, kFilterBlock);
  }
  int64_t Device(int64_t group, int64_t filter, int64_t channel, int64_t h, int64_t w) const {
    const int64_t member = group % merge;
    const int64_t c = member * channels + channel;
    const int64_t n = member * filters + filter;
    return ((((group / merge) * channel_blocks + c / block) * height + h) * width + w) *
               padded_filters * block +
           n * block + c % block;
  }

  int64_t filters;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t block;
  int64_t merge = 1;
  int64_t channel_blocks = 1;
  int64_t padded_filters = 1;
};

template <size_t kBytes, bool kToPlain>
void CopyGrouped(const Layout& layout, const std::byte* from, std::byte* to) {
  const GroupedWeight weight(layout);
  int64_t plain = 0;
  for (int64_t n = 0; n < layout.plain_shape[0]; ++n) {
    for (int64_t c = 0; c < weight.channels; ++c) {
      for (int64_t h = 0; h < weight.height; ++h) {
        for (int64_t w = 0; w < weight.width; ++w, ++plain) {
          const int64_t device = weight.Device(n / weight.filters, n % weight.filters, c, h, w);
          if (device >= layout.device_elements) {
            continue;  // a shape that lies: what the device array does not hold stays zero
          }
          const auto size = static_cast<int64_t>(kBytes);
          std::memcpy(to + (kToPlain ? plain : device) * size,
                      from + (kToPlain ? device : plain) * size, kBytes);
        }
      }
    }
  }
}

template <bool kToPlain>
void Copy(const Layout& layout, size_t element_bytes, const std::byte* from, std::byte* to) {
  if (ElementCount(layout.plain_shape) == 0) {
    return;
  }
  const auto run = [&]<size_t kBytes>() {
    if (layout.groups > 1) {
      CopyGrouped<kBytes, kToPlain>(layout, from, to);
    } else {
      BlockCopy<kBytes, kToPlain>(LoopsOf(layout), from, to).Run();
    }
  };
  switch (element_bytes) {
    case 1:
      run.template operator()<1>();
      break;
    case 2:
      run.template operator()<2>();
      break;
    case 4:
      run.template operator()<4>();
      break;
    case 8:
      run.template operator()<8>();
      break;
    default:
      run.template operator()<16>();
      break;
  }
}

}  // namespace

std::vector<BlockedAxis> JoinedAxes(const std::vector<BlockedAxis>& axes) {
  std::vector<BlockedAxis> joined;
  for (const BlockedAxis& axis : axes) {
    if (axis.extent == 1 && axis.block == 1) {
      continue;
    }
    if (!joined.empty() && joined.back().block == 1 && axis.block == 1 &&
        joined.back().outer_stride == axis.extent * axis.outer_stride) {
      joined.back().extent *= axis.extent;
      joined.back().outer_stride = axis.outer_stride;
    } else {
      joined.push_back(axis);
    }
  }
  return joined;
}

Status ForEachPiece(const Layout& layout, int64_t most_elements,
                    const std::function<Status(const LayoutPiece& piece)>& visit) {
  // The first axis that has several blocks is cut: those in front of it have one index each.
  size_t cut = 0;
  const auto blocks_of = [&](size_t axis) {
    return (layout.axes[axis].extent + layout.axes[axis].block - 1) / layout.axes[axis].block;
  };
  while (cut < layout.axes.size() && blocks_of(cut) == 1 && layout.axes[cut].block == 1) {
    ++cut;
  }
  const int64_t elements = ElementCount(layout.plain_shape);
  if (layout.groups > 1 || cut >= layout.axes.size() || elements == 0) {
    return visit({layout, 0, 0});
  }
  const BlockedAxis& axis = layout.axes[cut];
  const int64_t row = elements / axis.extent;  // elements of one index of the axis
  const int64_t blocks_at_once = std::max<int64_t>(1, most_elements / (row * axis.block));
  const int64_t blocks = blocks_of(cut);
  for (int64_t first = 0; first < blocks; first += blocks_at_once) {
    LayoutPiece piece;
    piece.layout = layout;
    const int64_t begin = first * axis.block;
    const int64_t end = std::min(axis.extent, (first + blocks_at_once) * axis.block);
    piece.layout.axes[cut].extent = end - begin;
    piece.layout.plain_shape.clear();
    for (const BlockedAxis& part : piece.layout.axes) {
      piece.layout.plain_shape.push_back(part.extent);
    }
    piece.device_first = first * axis.outer_stride;
    piece.plain_first = begin * row;
    MSP_RETURN_IF_ERROR(visit(piece));
  }
  return {};
}

void ToPlainRows(const Layout& layout, size_t element_bytes, std::span<const std::byte> device,
                 std::span<std::byte> plain) {
  if (layout.groups > 1) {
    std::fill(plain.begin(), plain.end(), std::byte{0});
  }
  if (plain.size() >= kStreamedBytes) {
    if (const std::optional<RowGroups> groups = FindRowGroups(layout, element_bytes)) {
      CopyRowGroups(*groups, element_bytes, device.data(), plain.data());
      return;
    }
  }
  Copy<true>(layout, element_bytes, device.data(), plain.data());
}

void ToDeviceLayout(const Layout& layout, size_t element_bytes, std::span<const std::byte> plain,
                    std::span<std::byte> device) {
  if (layout.groups > 1 || layout.device_elements != ElementCount(layout.plain_shape)) {
    std::fill(device.begin(), device.end(), std::byte{0});
  }
  Copy<false>(layout, element_bytes, plain.data(), device.data());
}

}  // namespace msprobe::io::kernel_dump
