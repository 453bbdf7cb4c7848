#include "src/io/kernel_dump/layout.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "src/io/byte_order.h"
#include "src/io/dense_view.h"
#include "src/io/kernel_dump/format.h"

namespace msprobe::io::kernel_dump {
namespace {

struct PlainOrder {
  uint32_t format;
  std::string_view axes;
};
// Order of the axes of formats without blocks.
constexpr std::array<PlainOrder, 9> kPlainOrders = {{{format::kNCHW, "NCHW"},
                                                     {format::kNHWC, "NHWC"},
                                                     {format::kCHWN, "CHWN"},
                                                     {format::kHWCN, "HWCN"},
                                                     {format::kNDHWC, "NDHWC"},
                                                     {format::kNCDHW, "NCDHW"},
                                                     {format::kDHWCN, "DHWCN"},
                                                     {format::kDHWNC, "DHWNC"},
                                                     {format::kND, ""}}};

// Layouts of one array axis after the other: a capital letter is a whole axis or its outer digit, a
// small one the inner digit.
struct BlockedOrder {
  uint32_t format;
  std::string_view digits;
  std::string_view plain;  // the axes it has, in no order that matters
};
constexpr std::array<BlockedOrder, 4> kBlockedOrders = {{{format::kNC1HWC0, "NCHWc", "NCHW"},
                                                         {format::kNC1HWC0C04, "NCHWc", "NCHW"},
                                                         {format::kC1HWNC0, "CHWNc", "NCHW"},
                                                         {format::kNDC1HWC0, "NDCHWc", "NCDHW"}}};

std::string_view PlainAxes(uint32_t format) {
  for (const PlainOrder& known : kPlainOrders) {
    if (known.format == format) {
      return known.axes;
    }
  }
  return {};
}

Status NoRule(uint32_t from, uint32_t to) {
  return UnsupportedError(
      fmt::format("Not supported from {} to {}", FormatName(from), FormatName(to)));
}
Status Unfit(const LayoutRequest& request, std::string_view why) {
  return MismatchError(
      fmt::format("shape {} of {} cannot become {} {}: {}", ShapeText(*request.device),
                  FormatName(request.from), FormatName(request.to),
                  request.target != nullptr ? ShapeText(*request.target) : "", why));
}

// Digits of one axis while a layout is put together.
struct AxisDigits {
  int64_t outer = 1;
  int64_t outer_stride = 0;
  int64_t inner = 1;
  int64_t inner_stride = 0;
};

// The digits of every axis of a row-major device array whose sizes are `sizes`, named by `digits`.
struct DigitTable {
  std::array<AxisDigits, 128> of = {};

  void Fill(std::string_view digits, const Shape& sizes) {
    const Shape strides = ContiguousStrides(sizes);
    for (size_t i = 0; i < digits.size(); ++i) {
      const char name = digits[i];
      const bool is_inner = name >= 'a';
      AxisDigits& axis = of[static_cast<size_t>(is_inner ? name - 'a' + 'A' : name)];
      (is_inner ? axis.inner : axis.outer) = sizes[i];
      (is_inner ? axis.inner_stride : axis.outer_stride) = strides[i];
    }
  }
};

// The axes of `order`, cut down to `extents`, which may be null.
Status SetAxes(const LayoutRequest& request, const DigitTable& table, std::string_view order,
               const Shape* extents, Layout& layout) {
  for (size_t i = 0; i < order.size(); ++i) {
    const AxisDigits& digits = table.of[static_cast<size_t>(order[i])];
    const int64_t padded = digits.outer * digits.inner;
    const int64_t extent = extents != nullptr ? (*extents)[i] : padded;
    if (extent > padded) {
      return Unfit(request, fmt::format("axis {} has {} of {}", order[i], padded, extent));
    }
    layout.axes.push_back({order[i], extent, digits.inner, digits.outer_stride,
                           digits.inner > 1 ? digits.inner_stride : 0});
    layout.plain_shape.push_back(extent);
  }
  return {};
}

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Sizes by axis name, of a target in the order of its format.
struct Extents {
  std::array<int64_t, 128> of = {};
  Extents(std::string_view order, const Shape& shape) {
    for (size_t i = 0; i < order.size(); ++i) {
      of[static_cast<size_t>(order[i])] = shape[i];
    }
  }
  int64_t operator[](char name) const { return of[static_cast<size_t>(name)]; }
};

// C1*H*W, N1, N0, C0 (with D in front for 3D): H and W are known from the target alone.
Result<Layout> FractalZ(const LayoutRequest& request, std::string_view order) {
  const Shape& device = *request.device;
  const bool is_3d = request.from == format::kFractalZ3D;
  if (order.size() != (is_3d ? 5U : 4U)) {
    return NoRule(request.from, request.to);
  }
  if (request.target == nullptr || request.target->size() != order.size()) {
    return Unfit(request, fmt::format("the shape to come to is needed, of {} axes", order.size()));
  }
  if (device.size() != 4) {
    return Unfit(request, "4 axes were expected: C1*H*W, N1, N0, C0");
  }
  const Extents extents(order, *request.target);
  int64_t window = extents['H'] * extents['W'];
  if (is_3d && !CheckedMultiply(window, extents['D'], &window)) {
    return Unfit(request, "too large");
  }
  if (window <= 0 || device[0] % window != 0) {
    return Unfit(request, fmt::format("{} is no multiple of {}", device[0], window));
  }
  Layout layout;
  if (request.groups > 1) {
    layout.groups = request.groups;
    layout.group_block = device[3];
    layout.plain_shape = *request.target;
    layout.device_elements = ElementCount(device);
    if (request.to != format::kNCHW || is_3d) {
      return NoRule(request.from, request.to);
    }
    if (extents['N'] % request.groups != 0 || device[3] <= 0) {
      return Unfit(request,
                   fmt::format("{} groups do not divide {}", request.groups, extents['N']));
    }
    return layout;
  }
  DigitTable table;
  if (is_3d) {
    table.Fill("DCHWNnc", {extents['D'], device[0] / window, extents['H'], extents['W'], device[1],
                           device[2], device[3]});
  } else {
    table.Fill("CHWNnc",
               {device[0] / window, extents['H'], extents['W'], device[1], device[2], device[3]});
  }
  MSP_RETURN_IF_ERROR(SetAxes(request, table, order, request.target, layout));
  layout.device_elements = ElementCount(device);
  return layout;
}

// ..., W1, H1, H0, W0: matrices of H rows and W columns.
Result<Layout> FractalNZ(const LayoutRequest& request) {
  const Shape& device = *request.device;
  if (device.size() < 4) {
    return Unfit(request, "at least 4 axes were expected: W1, H1, H0, W0");
  }
  const size_t leading = device.size() - 4;
  int64_t matrices = 1;
  for (size_t i = 0; i < leading; ++i) {
    matrices *= device[i];
  }
  Shape target;
  if (request.target != nullptr) {
    target = *request.target;
  } else {
    target.assign(device.begin(), device.begin() + static_cast<ptrdiff_t>(leading));
    target.push_back(device[leading + 1] * device[leading + 2]);
    target.push_back(device[leading] * device[leading + 3]);
  }
  // A row of one matrix where there is one axis only; 4-d formats name the last two in their way.
  const size_t rank = target.size();
  const int64_t rows = rank > 1 ? target[rank - 2] : 1;
  const int64_t columns = rank > 0 ? target[rank - 1] : 1;
  int64_t wanted = 1;
  for (size_t i = 0; i + 2 < rank; ++i) {
    wanted *= target[i];
  }
  if (wanted != matrices) {
    return Unfit(request, fmt::format("there are {} matrices, not {}", matrices, wanted));
  }
  DigitTable table;
  table.Fill("BWHhw", {matrices, device[leading], device[leading + 1], device[leading + 2],
                       device[leading + 3]});
  Layout layout;
  const Shape extents = {matrices, rows, columns};
  MSP_RETURN_IF_ERROR(SetAxes(request, table, "BHW", &extents, layout));
  layout.plain_shape = std::move(target);
  layout.device_elements = ElementCount(device);
  return layout;
}

// C1, H, W, N, Co, C0 with Co = C0: of each block of channels only the diagonal is in use.
Result<Layout> Diagonal(const LayoutRequest& request, std::string_view order) {
  const Shape& device = *request.device;
  if (device.size() != 6 || device[4] != device[5]) {
    return Unfit(request, "6 axes were expected: C1, H, W, N, Co, C0, the last two equal");
  }
  const int64_t block = device[5];
  DigitTable table;
  table.Fill("CHWN", {device[0], device[1], device[2], device[3]});
  for (const char name : std::string_view("CHWN")) {
    table.of[static_cast<size_t>(name)].outer_stride *= block * block;
  }
  table.of['C'].inner = block;
  table.of['C'].inner_stride = block + 1;
  Layout layout;
  MSP_RETURN_IF_ERROR(SetAxes(request, table, order, request.target, layout));
  layout.device_elements = ElementCount(device);
  return layout;
}

// One array axis per digit.
Result<Layout> ByDigits(const LayoutRequest& request, std::string_view digits,
                        std::string_view order, const Shape* target) {
  if (request.device->size() != digits.size()) {
    return Unfit(request, fmt::format("{} axes were expected", digits.size()));
  }
  DigitTable table;
  table.Fill(digits, *request.device);
  Layout layout;
  MSP_RETURN_IF_ERROR(SetAxes(request, table, order, target, layout));
  layout.device_elements = ElementCount(*request.device);
  return layout;
}

bool HasSameAxes(std::string_view a, std::string_view b) {
  std::string left(a);
  std::string right(b);
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  return left == right;
}

}  // namespace

bool IsPlainFormat(uint32_t number) { return number == format::kND || !PlainAxes(number).empty(); }

uint32_t NaturalPlainFormat(uint32_t from, size_t original_rank) {
  switch (from) {
    case format::kNC1HWC0:
    case format::kNC1HWC0C04:
    case format::kC1HWNC0:
    case format::kC1HWNCoC0:
    case format::kFractalZ:
    case format::kFractalZC04:
      return format::kNCHW;
    case format::kNDC1HWC0:
    case format::kFractalZ3D:
      return format::kNCDHW;
    case format::kFractalNZ:
      return format::kND;
    default:
      return original_rank == 4 && from == format::kNCHW ? format::kNCHW : from;
  }
}

Result<Layout> FindLayout(const LayoutRequest& request) {
  MSP_RETURN_IF_ERROR(DenseBytes(*request.device, 16).status());
  if (request.target != nullptr) {
    MSP_RETURN_IF_ERROR(DenseBytes(*request.target, 16).status());
  }
  const std::string_view order = PlainAxes(request.to);
  if (!IsPlainFormat(request.to)) {
    return NoRule(request.from, request.to);
  }
  const Shape* target = request.target;
  if (target != nullptr && !order.empty() && target->size() != order.size() &&
      request.from != format::kFractalNZ) {
    return Unfit(request, fmt::format("{} has {} axes", FormatName(request.to), order.size()));
  }
  switch (request.from) {
    case format::kFractalNZ:
      if (request.to == format::kND || request.to == format::kNCHW) {
        return FractalNZ(request);
      }
      return NoRule(request.from, request.to);
    case format::kFractalZ:
    case format::kFractalZ3D:
      return FractalZ(request, order);
    case format::kC1HWNCoC0:
      return HasSameAxes(order, "NCHW") ? Diagonal(request, order)
                                        : NoRule(request.from, request.to);
    default:
      break;
  }
  for (const BlockedOrder& known : kBlockedOrders) {
    if (known.format == request.from) {
      if (request.to == format::kND && request.from == format::kNDC1HWC0) {
        return ByDigits(
            request, known.digits, known.plain,
            target != nullptr && target->size() == known.plain.size() ? target : nullptr);
      }
      return HasSameAxes(order, known.plain) ? ByDigits(request, known.digits, order, target)
                                             : NoRule(request.from, request.to);
    }
  }
  if (const std::string_view from_order = PlainAxes(request.from);
      !from_order.empty() && HasSameAxes(from_order, order)) {
    return ByDigits(request, from_order, order, target);
  }
  return NoRule(request.from, request.to);
}

namespace {

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

template <size_t kBytes>
void CopyRun(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
             int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * kBytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride * static_cast<int64_t>(kBytes),
                from + i * from_stride * static_cast<int64_t>(kBytes), kBytes);
  }
}

template <size_t kBytes, bool kToPlain>
class BlockCopy {
 public:
  BlockCopy(std::vector<Loop> loops, const std::byte* from, std::byte* to)
      : loops_(std::move(loops)), from_(from), to_(to) {}

  void Run() { Level(0, 0, 0); }

 private:
  void Level(size_t level, int64_t device, int64_t plain) {
    Loop& loop = loops_[level];
    if (level + 1 == loops_.size()) {
      if constexpr (kToPlain) {
        CopyRun<kBytes>(from_ + device * static_cast<int64_t>(kBytes), loop.device_stride,
                        to_ + plain * static_cast<int64_t>(kBytes), loop.plain_stride, loop.count);
      } else {
        CopyRun<kBytes>(from_ + plain * static_cast<int64_t>(kBytes), loop.plain_stride,
                        to_ + device * static_cast<int64_t>(kBytes), loop.device_stride,
                        loop.count);
      }
      return;
    }
    const int64_t count = loop.count;
    for (int64_t i = 0; i < count; ++i) {
      if (loop.inner != SIZE_MAX) {
        loops_[loop.inner].count = i + 1 == count ? loop.last : loop.whole;
      }
      Level(level + 1, device + i * loop.device_stride, plain + i * loop.plain_stride);
    }
  }

  std::vector<Loop> loops_;
  const std::byte* from_;
  std::byte* to_;
};

// Outer digits in the order of the plain tensor, but for its last axis; then the inner digits; then
// the last axis: a tile that both sides hold in a few cache lines.
std::vector<Loop> LoopsOf(const Layout& layout) {
  Shape extents;
  for (const BlockedAxis& axis : layout.axes) {
    extents.push_back(axis.extent);
  }
  const Shape plain_strides = ContiguousStrides(extents);
  std::vector<Loop> outer;
  std::vector<Loop> inner;
  std::vector<size_t> outer_of;  // of each inner loop
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    const BlockedAxis& axis = layout.axes[i];
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
  const bool last_is_split = !layout.axes.empty() && layout.axes.back().block > 1;
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
  Copy<true>(layout, element_bytes, device.data(), plain.data());
}

void ToDeviceLayout(const Layout& layout, size_t element_bytes, std::span<const std::byte> plain,
                    std::span<std::byte> device) {
  std::fill(device.begin(), device.end(), std::byte{0});
  Copy<false>(layout, element_bytes, plain.data(), device.data());
}

}  // namespace msprobe::io::kernel_dump
