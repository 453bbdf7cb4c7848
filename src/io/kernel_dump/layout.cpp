#include "src/io/kernel_dump/layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/io/kernel_dump/format.h"
#include "src/kernels/stream_copy.h"
#include "src/kernels/transpose.h"

namespace msprobe::io::kernel_dump {
namespace {

constexpr int64_t kFewestRows = 16;
constexpr int64_t kMostPlanes = int64_t{1} << 16U;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRunBytes = 1024;  // of a row that are written at once
// A run that is only gathered: the buffer fits the first cache.
constexpr int64_t kPlainRunBytes = 256;
constexpr int64_t kBufferBytes = int64_t{256} << 10U;  // in the second-level cache
constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostFetched = 16;  // lines that are on their way from memory at once

// An axis as one digit where its two are one walk: filters 16 by 16, each block behind the other.
BlockedAxis OneDigit(const BlockedAxis& axis) {
  BlockedAxis whole = axis;
  if (axis.block > 1 && axis.outer_stride == axis.block * axis.inner_stride) {
    whole.block = 1;
    whole.outer_stride = axis.inner_stride;
    whole.inner_stride = 0;
  }
  return whole;
}

class RowCopy {
 public:
  RowCopy(const RowGroups& groups, size_t element_bytes, const std::byte* device, std::byte* plain)
      : groups_(groups),
        size_(static_cast<int64_t>(element_bytes)),
        device_(device),
        plain_(plain),
        row_bytes_(groups.channels * groups.window * size_),
        block_bytes_(groups.block * groups.window * size_),
        rows_at_once_(std::clamp<int64_t>(
            kBufferBytes / std::max(block_bytes_, kRunBytes), 1,
            std::min(groups.rows, std::max(kFewestRows, kPageBytes / (groups.block * size_))))),
        blocks_at_once_(
            std::max<int64_t>(1, (groups.window > 1 ? kRunBytes : kPlainRunBytes) / block_bytes_)),
        buffer_row_(blocks_at_once_ * block_bytes_ + 2 * kLineBytes),
        buffer_(static_cast<size_t>(rows_at_once_ * buffer_row_)),
        kept_(static_cast<size_t>(rows_at_once_)) {}

  void Run() {
    std::byte* plain = plain_;
    for (const int64_t plane : groups_.planes) {
      for (int64_t row = 0; row < groups_.rows; row += rows_at_once_) {
        Rows(device_ + (plane + row * groups_.block) * size_, plain + row * row_bytes_,
             std::min(rows_at_once_, groups_.rows - row));
      }
      plain += groups_.rows * row_bytes_;
    }
    kernels::FinishStreams();
  }

 private:
  // A row of the buffer begins where a cache line of the plain row does, so that whole lines are
  // written: what is left of the last one waits for the next blocks.
  void Rows(const std::byte* device, std::byte* plain, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      kept_[static_cast<size_t>(row)] =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(plain + row * row_bytes_) % kLineBytes);
    }
    const int64_t blocks = (groups_.channels + groups_.block - 1) / groups_.block;
    for (int64_t first = 0; first < blocks; first += blocks_at_once_) {
      const int64_t end = std::min(blocks, first + blocks_at_once_);
      for (int64_t block = first; block < end; ++block) {
        const int64_t channels = std::min(groups_.block, groups_.channels - block * groups_.block);
        const std::byte* from = device + block * groups_.block_stride * size_;
        std::byte* to = buffer_.data() + (block - first) * block_bytes_;
        const bool fetches = block + 1 < blocks && groups_.window <= kMostFetched;
        for (int64_t row = 0; row < rows; ++row) {
          if (fetches && row * groups_.block * size_ % kLineBytes == 0) {
            FetchNext(from);
          }
          Block(from, to + kept_[static_cast<size_t>(row)], channels);
          from += groups_.block * size_;
          to += buffer_row_;
        }
      }
      const int64_t begin = first * block_bytes_;
      const int64_t bytes = std::min(end * block_bytes_, row_bytes_) - begin;
      for (int64_t row = 0; row < rows; ++row) {
        WriteRow(plain + row * row_bytes_, begin, bytes, end == blocks, row);
      }
    }
  }

  // `bytes` more of a row, from its byte `begin` on.
  void WriteRow(std::byte* plain, int64_t begin, int64_t bytes, bool is_last, int64_t row) {
    int64_t& kept = kept_[static_cast<size_t>(row)];
    std::byte* const from = buffer_.data() + row * buffer_row_;
    std::byte* const line = plain + begin - kept;  // where the buffer's row begins
    const int64_t filled = kept + bytes;
    const int64_t whole = filled / kLineBytes * kLineBytes;
    // The first line of a row is partly the row's in front of it.
    const int64_t head = begin == 0 && kept > 0 ? std::min(kLineBytes, filled) : 0;
    if (head > 0) {
      std::memcpy(line + kept, from + kept, static_cast<size_t>(head - kept));
    }
    if (whole > head) {
      kernels::StreamCopy(line + head, from + head, static_cast<size_t>(whole - head));
    }
    const int64_t rest = std::max(whole, head);
    const auto left = static_cast<size_t>(filled - rest);
    if (is_last) {
      std::memcpy(line + rest, from + rest, left);
    } else {
      // Only the last run may be shorter than a line.
      std::memmove(from, from + rest, left);
      kept = static_cast<int64_t>(left);
    }
  }

  // Lines of the next block on their way while this one is turned around: a page at each place of
  // the window is too short for the processor to see where the next one begins.
  void FetchNext(const std::byte* from) const {
    const std::byte* next = from + groups_.block_stride * size_;
    for (int64_t place = 0; place < groups_.window; ++place) {
      __builtin_prefetch(next);
      next += groups_.window_stride * size_;
    }
  }

  // The block of one row.
  void Block(const std::byte* from, std::byte* to, int64_t channels) const {
    if (groups_.window > 1) {
      kernels::TransposeMatrix(static_cast<size_t>(size_), from, groups_.window_stride, to,
                               groups_.window, groups_.window, channels);
      return;
    }
    // Most are one of two sizes, for which the compiler knows a few instructions.
    switch (const int64_t bytes = channels * size_) {
      case 32:
        std::memcpy(to, from, 32);
        break;
      case 64:
        std::memcpy(to, from, 64);
        break;
      default:
        std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }

  const RowGroups& groups_;
  const int64_t size_;
  const std::byte* const device_;
  std::byte* const plain_;
  const int64_t row_bytes_;
  const int64_t block_bytes_;
  const int64_t rows_at_once_;
  const int64_t blocks_at_once_;
  const int64_t buffer_row_;
  std::vector<std::byte> buffer_;
  std::vector<int64_t> kept_;  // by row: bytes in front of the next block
};

}  // namespace

std::optional<RowGroups> FindRowGroups(const Layout& layout, size_t element_bytes) {
  if (layout.groups > 1) {
    return std::nullopt;
  }
  std::vector<BlockedAxis> axes = layout.axes;
  std::transform(axes.begin(), axes.end(), axes.begin(), OneDigit);
  axes = JoinedAxes(axes);
  RowGroups groups;
  size_t place = axes.size();  // of the blocked axis, the last or the one in front of it
  for (size_t i = axes.size(); i-- > 0 && i + 2 >= axes.size();) {
    if (axes[i].block > 1) {
      place = i;
    }
  }
  if (place == axes.size() || place == 0 || axes[place].inner_stride != 1) {
    return std::nullopt;
  }
  const BlockedAxis& blocks = axes[place];
  const BlockedAxis& rows = axes[place - 1];
  if (rows.block > 1 || rows.outer_stride != blocks.block || rows.extent < kFewestRows) {
    return std::nullopt;
  }
  groups.rows = rows.extent;
  groups.channels = blocks.extent;
  groups.block = blocks.block;
  groups.block_stride = blocks.outer_stride;
  if (place + 1 < axes.size()) {
    if (axes.back().block > 1) {
      return std::nullopt;
    }
    groups.window = axes.back().extent;
    groups.window_stride = axes.back().outer_stride;
  }
  if (groups.window == 1 && groups.channels * static_cast<int64_t>(element_bytes) < kPageBytes) {
    return std::nullopt;
  }
  groups.planes = {0};
  for (size_t i = 0; i + 1 < place; ++i) {
    if (axes[i].block > 1 ||
        axes[i].extent > kMostPlanes / static_cast<int64_t>(groups.planes.size())) {
      return std::nullopt;
    }
    std::vector<int64_t> planes;
    for (const int64_t plane : groups.planes) {
      for (int64_t index = 0; index < axes[i].extent; ++index) {
        planes.push_back(plane + index * axes[i].outer_stride);
      }
    }
    groups.planes = std::move(planes);
  }
  return groups;
}

void CopyRowGroups(const RowGroups& groups, size_t element_bytes, const std::byte* device,
                   std::byte* plain) {
  RowCopy(groups, element_bytes, device, plain).Run();
}

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
    return Unfit(request, fmt::format("{} is not a multiple of {}", device[0], window));
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
    // Groups have no digits to compare the target with; but each of its elements has a place of its
    // own in the device array.
    if (ElementCount(layout.plain_shape) > layout.device_elements) {
      return Unfit(request, fmt::format("{} elements cannot hold {}", layout.device_elements,
                                        ElementCount(layout.plain_shape)));
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

// Plain tensors of this size leave the caches: they are written past them.
constexpr size_t kStreamedBytes = size_t{16} << 20U;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// One loop of a copy: `count` steps, each further by these strides on both sides.
struct Loop {
  int64_t count = 1;
  int64_t device_stride = 0;
  int64_t plain_stride = 0;
  // For an outer digit: the inner one (an index into the loops) has `whole` steps, but `last` in
  // the last step of this loop.
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
