// Pooling: the largest element or the mean of each window.
#include <cmath>
#include <limits>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"
#include "src/reference/operators/windows.h"

namespace msprobe::reference {
namespace {

// The dims in front of the last `dims` ones; false where there are not so many.
bool ReadInput(Call& call, size_t dims, Value& x, Shape& leading, Shape& input) {
  x = call.Tensor(0, "input");
  if (call.failed() || x->shape.size() < dims || x->size() == 0) {
    call.Fail("pooling of unusual shapes");
    return false;
  }
  const auto split = x->shape.end() - static_cast<std::ptrdiff_t>(dims);
  leading.assign(x->shape.begin(), split);
  input.assign(split, x->shape.end());
  return true;
}

WindowSizes SizesOf(Call& call, size_t dims, size_t padding, size_t ceiling) {
  WindowSizes sizes;
  sizes.kernel = Spread(call, call.Ints(1, "kernel_size"), dims, 0);
  std::vector<int64_t> stride = call.Ints(2, "stride");
  sizes.stride = stride.empty() ? sizes.kernel : Spread(call, std::move(stride), dims, 1);
  sizes.padding = Spread(call, call.Ints(padding, "padding"), dims, 0);
  sizes.dilation.assign(dims, 1);
  sizes.ceiling = call.Bool(ceiling, "ceil_mode", false);
  return sizes;
}

// Where several elements of a window are the largest, the gradient may go to any of them.
Value Largest(Call& call, const Arithmetic& m, const Value& x, const Shape& leading,
              const Windows& windows) {
  const int64_t planes = ElementCount(leading);
  const int64_t plane = planes == 0 ? 0 : static_cast<int64_t>(x->size()) / planes;
  const Shape shape = WindowsResultShape(leading, windows);
  if (!m.problem().empty() || !m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices;
  const size_t places = windows.inside.size();
  for (int64_t i = 0; i < planes; ++i) {
    for (size_t place = 0; place < places; ++place) {
      int64_t best = -1;
      bool is_tied = false;
      for (size_t k = 0; k < windows.length; ++k) {
        const int64_t at = windows.places[place * windows.length + k];
        if (at < 0) {
          continue;
        }
        const double value = x->value[static_cast<size_t>(i * plane + at)];
        const double champion = best < 0 ? -std::numeric_limits<double>::infinity()
                                         : x->value[static_cast<size_t>(best)];
        if (std::isnan(value)) {
          return call.Fail("a window holds NaN");
        }
        is_tied = best >= 0 && value == champion ? true : value > champion ? false : is_tied;
        if (best < 0 || value > champion) {
          best = i * plane + at;
        }
      }
      if (best < 0) {
        return call.Fail("a window holds nothing");
      }
      if (is_tied && m.taping()) {
        return call.Fail("gradients of extremes depend on which of equal elements is taken");
      }
      indices.push_back(best);
    }
  }
  return m.Take({x}, shape, std::move(indices));
}

template <size_t kDims>
Values AveragePool(Call& call, const Arithmetic& m) {
  Value x;
  Shape leading;
  Shape input;
  if (!ReadInput(call, kDims, x, leading, input)) {
    return {nullptr};
  }
  const WindowSizes sizes = SizesOf(call, kDims, 3, 4);
  const bool by_padding = call.Bool(5, "count_include_pad", true);
  const double divisor = call.Has(6, "divisor_override") ? call.Number(6, "divisor_override") : 0;
  const std::vector<WindowsOfDim> dims =
      call.failed() ? std::vector<WindowsOfDim>() : SlidingWindows(call, m, input, sizes);
  if (call.failed() || !m.problem().empty()) {
    return {nullptr};
  }
  return {WindowMeans(m, x, leading, Joined(m, dims, input), by_padding, divisor)};
}

template <size_t kDims>
Values MaxPool(Call& call, const Arithmetic& m) {
  Value x;
  Shape leading;
  Shape input;
  if (!ReadInput(call, kDims, x, leading, input)) {
    return {nullptr};
  }
  WindowSizes sizes = SizesOf(call, kDims, 3, 5);
  sizes.dilation = Spread(call, call.Ints(4, "dilation"), kDims, 1);
  const std::vector<WindowsOfDim> dims =
      call.failed() ? std::vector<WindowsOfDim>() : SlidingWindows(call, m, input, sizes);
  if (call.failed() || !m.problem().empty()) {
    return {nullptr};
  }
  return {Largest(call, m, x, leading, Joined(m, dims, input))};
}

template <size_t kDims, bool kMax>
Values AdaptivePool(Call& call, const Arithmetic& m) {
  Value x;
  Shape leading;
  Shape input;
  if (!ReadInput(call, kDims, x, leading, input)) {
    return {nullptr};
  }
  // Sizes may be None, the input's: the captured output tells them.
  if (call.outputs().empty() || call.outputs()[0].value == nullptr ||
      call.outputs()[0].value->shape.size() != x->shape.size()) {
    return {call.Fail("its output was not saved")};
  }
  const Shape& output = call.outputs()[0].value->shape;
  const std::vector<WindowsOfDim> dims = AdaptiveWindows(
      call, m, input, Shape(output.end() - static_cast<std::ptrdiff_t>(kDims), output.end()));
  if (call.failed() || !m.problem().empty()) {
    return {nullptr};
  }
  const Windows windows = Joined(m, dims, input);
  return {kMax ? Largest(call, m, x, leading, windows)
               : WindowMeans(m, x, leading, windows, false, 0)};
}

}  // namespace

OperatorList PoolingOperators() {
  return {
      {"avg_pool1d", AveragePool<1>},
      {"avg_pool2d", AveragePool<2>},
      {"avg_pool3d", AveragePool<3>},
      {"max_pool1d max_pool1d_with_indices", MaxPool<1>},
      {"max_pool2d max_pool2d_with_indices", MaxPool<2>},
      {"max_pool3d max_pool3d_with_indices", MaxPool<3>},
      {"adaptive_avg_pool1d", AdaptivePool<1, false>},
      {"adaptive_avg_pool2d", AdaptivePool<2, false>},
      {"adaptive_avg_pool3d", AdaptivePool<3, false>},
      {"adaptive_max_pool1d adaptive_max_pool1d_with_indices", AdaptivePool<1, true>},
      {"adaptive_max_pool2d adaptive_max_pool2d_with_indices", AdaptivePool<2, true>},
      {"adaptive_max_pool3d adaptive_max_pool3d_with_indices", AdaptivePool<3, true>},
  };
}

}  // namespace msprobe::reference
