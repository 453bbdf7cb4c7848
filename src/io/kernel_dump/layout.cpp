#include "src/io/kernel_dump/layout.h"

#include <algorithm>
#include <array>
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

}  // namespace msprobe::io::kernel_dump
