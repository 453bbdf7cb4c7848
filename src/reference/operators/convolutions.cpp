// Windows that slide over a tensor, and what is made of them: convolutions and pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/reference/operators/operators.h"
#include "src/reference/operators/windows.h"

namespace msprobe::reference {

namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 24U;  // along one dim

bool Plausible(const WindowSizes& sizes, size_t dims) {
  const auto between = [&](const std::vector<int64_t>& numbers, int64_t least) {
    return numbers.size() == dims && std::all_of(numbers.begin(), numbers.end(), [&](int64_t n) {
             return n >= least && n <= kMostPlaces;
           });
  };
  return between(sizes.kernel, 1) && between(sizes.stride, 1) && between(sizes.padding, 0) &&
         between(sizes.dilation, 1);
}

// Windows of a dim, and the places of each: asked for before any of them is made, since arguments
// of a few bytes may ask for any number.
struct Extent {
  int64_t count = 0;
  int64_t length = 0;
};

// The parts of an input of `size` places that is divided into `count` of them.
struct AdaptiveParts {
  int64_t First(int64_t out) const { return out * size / count; }
  int64_t End(int64_t out) const { return ((out + 1) * size + count - 1) / count; }

  int64_t size;
  int64_t count;
};

bool AffordsWindows(const Arithmetic& arithmetic, const std::vector<Extent>& extents) {
  Shape all;
  bool each = true;
  for (const Extent& extent : extents) {
    all.push_back(extent.count);
    all.push_back(extent.count == 0 ? 0 : extent.length);
  }
  if (!arithmetic.Affords(all)) {
    return false;
  }
  for (const Extent& extent : extents) {  // a dim without windows hides what the others ask for
    each = each && arithmetic.Affords({extent.count, extent.length});
  }
  return each;
}

}  // namespace

std::vector<WindowsOfDim> SlidingWindows(Call& call, const Arithmetic& arithmetic,
                                         const Shape& input, const WindowSizes& sizes) {
  std::vector<WindowsOfDim> dims(input.size());
  std::vector<Extent> extents(input.size());
  if (!Plausible(sizes, input.size())) {
    call.Fail("impossible sizes of its windows");
    return {};
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t size = input[dim];
    const int64_t stride = sizes.stride[dim];
    const int64_t padding = sizes.padding[dim];
    const int64_t reach = sizes.dilation[dim] * (sizes.kernel[dim] - 1) + 1;
    const int64_t room = size + 2 * padding - reach;
    if (room < 0 || size > kMostPlaces) {
      call.Fail("its windows are larger than its input");
      return {};
    }
    int64_t count = (sizes.ceiling ? room + stride - 1 : room) / stride + 1;
    if (sizes.ceiling && (count - 1) * stride >= size + padding) {
      --count;  // a window has to begin inside of the input or of the padding before it
    }
    extents[dim] = {count, sizes.kernel[dim]};
  }
  if (!AffordsWindows(arithmetic, extents)) {
    return {};
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t size = input[dim];
    const int64_t stride = sizes.stride[dim];
    const int64_t padding = sizes.padding[dim];
    const int64_t count = extents[dim].count;
    for (int64_t out = 0; out < count; ++out) {
      std::vector<int64_t>& places = dims[dim].places.emplace_back();
      int64_t inside = 0;
      int64_t padded = 0;
      for (int64_t k = 0; k < sizes.kernel[dim]; ++k) {
        const int64_t at = out * stride - padding + k * sizes.dilation[dim];
        const bool is_inside = at >= 0 && at < size;
        places.push_back(is_inside ? at : -1);
        inside += is_inside ? 1 : 0;
        padded += at < size + padding ? 1 : 0;
      }
      dims[dim].inside.push_back(inside);
      dims[dim].padded.push_back(padded);
    }
  }
  return dims;
}

std::vector<WindowsOfDim> TransposedWindows(Call& call, const Arithmetic& arithmetic,
                                            const Shape& input, const WindowSizes& sizes,
                                            const std::vector<int64_t>& output_padding) {
  std::vector<WindowsOfDim> dims(input.size());
  std::vector<Extent> extents(input.size());
  if (!Plausible(sizes, input.size()) || output_padding.size() != input.size()) {
    call.Fail("impossible sizes of its windows");
    return {};
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t stride = sizes.stride[dim];
    const int64_t count = (input[dim] - 1) * stride - 2 * sizes.padding[dim] +
                          sizes.dilation[dim] * (sizes.kernel[dim] - 1) + output_padding[dim] + 1;
    if (input[dim] < 1 || input[dim] > kMostPlaces || output_padding[dim] < 0 || count < 0 ||
        count > kMostPlaces) {
      call.Fail("impossible sizes of its windows");
      return {};
    }
    extents[dim] = {count, sizes.kernel[dim]};
  }
  if (!AffordsWindows(arithmetic, extents)) {
    return {};
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t stride = sizes.stride[dim];
    const int64_t count = extents[dim].count;
    for (int64_t out = 0; out < count; ++out) {
      std::vector<int64_t>& places = dims[dim].places.emplace_back();
      for (int64_t k = 0; k < sizes.kernel[dim]; ++k) {
        const int64_t at = out + sizes.padding[dim] - k * sizes.dilation[dim];
        const bool is_inside = at >= 0 && at % stride == 0 && at / stride < input[dim];
        places.push_back(is_inside ? at / stride : -1);
      }
    }
    dims[dim].inside.assign(static_cast<size_t>(count), 1);
    dims[dim].padded.assign(static_cast<size_t>(count), 1);
  }
  return dims;
}

std::vector<WindowsOfDim> AdaptiveWindows(Call& call, const Arithmetic& arithmetic,
                                          const Shape& input, const Shape& output) {
  std::vector<WindowsOfDim> dims(input.size());
  std::vector<Extent> extents(input.size());
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t size = input[dim];
    const int64_t count = output[dim];
    if (size < 1 || size > kMostPlaces || count < 1 || count > kMostPlaces) {
      call.Fail("impossible sizes of its windows");
      return {};
    }
    const AdaptiveParts parts = {size, count};
    int64_t longest = 0;
    for (int64_t out = 0; out < count; ++out) {
      longest = std::max(longest, parts.End(out) - parts.First(out));
    }
    extents[dim] = {count, longest};
  }
  if (!AffordsWindows(arithmetic, extents)) {
    return {};
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const AdaptiveParts parts = {input[dim], output[dim]};
    const auto [count, longest] = extents[dim];
    for (int64_t out = 0; out < count; ++out) {
      std::vector<int64_t>& places = dims[dim].places.emplace_back();
      for (int64_t k = 0; k < longest; ++k) {
        const int64_t at = parts.First(out) + k;
        places.push_back(at < parts.End(out) ? at : -1);
      }
      dims[dim].inside.push_back(parts.End(out) - parts.First(out));
      dims[dim].padded.push_back(parts.End(out) - parts.First(out));
    }
  }
  return dims;
}

Windows Joined(const Arithmetic& arithmetic, const std::vector<WindowsOfDim>& dims,
               const Shape& input) {
  Windows windows;
  Shape all;
  for (const WindowsOfDim& dim : dims) {
    windows.shape.push_back(static_cast<int64_t>(dim.places.size()));
    all.push_back(windows.shape.back());
    all.push_back(dim.places.empty() ? 0 : static_cast<int64_t>(dim.places[0].size()));
  }
  if (!arithmetic.Affords(all)) {
    return windows;
  }
  windows.length = 1;
  windows.places = {0};
  windows.inside = {1};
  windows.padded = {1};
  size_t count = 1;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const WindowsOfDim& next = dims[dim];
    const size_t longer = next.places.empty() ? 0 : next.places[0].size();
    Windows joined;
    for (size_t before = 0; before < count; ++before) {
      for (size_t out = 0; out < next.places.size(); ++out) {
        joined.inside.push_back(windows.inside[before] * next.inside[out]);
        joined.padded.push_back(windows.padded[before] * next.padded[out]);
        for (size_t k = 0; k < windows.length; ++k) {
          const int64_t base = windows.places[before * windows.length + k];
          for (const int64_t place : next.places[out]) {
            joined.places.push_back(base < 0 || place < 0 ? -1 : base * input[dim] + place);
          }
        }
      }
    }
    count *= next.places.size();
    windows.length *= longer;
    windows.places = std::move(joined.places);
    windows.inside = std::move(joined.inside);
    windows.padded = std::move(joined.padded);
  }
  return windows;
}

Shape WindowsResultShape(const Shape& leading, const Windows& windows) {
  Shape shape = leading;
  shape.insert(shape.end(), windows.shape.begin(), windows.shape.end());
  return shape;
}

Value WindowMeans(const Arithmetic& m, const Value& x, const Shape& leading, const Windows& windows,
                  bool by_padding, double divisor) {
  const int64_t planes = ElementCount(leading);
  const int64_t plane = planes == 0 ? 0 : static_cast<int64_t>(x->size()) / planes;
  const int64_t places = ElementCount(windows.shape);
  const Shape shape = {planes, places, static_cast<int64_t>(windows.length)};
  if (!m.problem().empty() || !m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(ElementCount(shape)));
  for (int64_t i = 0; i < planes; ++i) {
    for (const int64_t place : windows.places) {
      indices.push_back(place < 0 ? -1 : i * plane + place);
    }
  }
  std::vector<double> counts;
  for (const int64_t count : by_padding ? windows.padded : windows.inside) {
    counts.push_back(divisor != 0 ? divisor : static_cast<double>(count));
  }
  const Value sums = m.Sum(m.Take({x}, shape, std::move(indices)), {2}, false);
  return m.Reshape(m.Divide(sums, MakeValue({places}, std::move(counts))),
                   WindowsResultShape(leading, windows));
}

// Convolutions as products of matrices: the windows of the input are laid out as columns. Fast
// algorithms (Winograd, FFT) are allowed: their errors grow with their tiles, not with the sums (B.
// Barabasz et al., Error analysis and improving the accuracy of Winograd convolution, ACM TOMS 46
// (2020)); as if sums had so many terms more.

namespace {

constexpr size_t kTermsOfFastAlgorithms = 64;

struct Convolution {
  Value x;       // batch, channels, ...
  Value weight;  // out, in / groups, ...; transposed: in, out / groups, ...
  Value bias;
  int64_t groups = 1;
  bool transposed = false;
  bool unbatched = false;
};

// Elements of `group` of the weight as out x (in, kernel).
Value WeightOfGroup(const Arithmetic& m, const Convolution& of, int64_t group, int64_t in,
                    int64_t out) {
  const int64_t kernel = ElementCount({of.weight->shape.begin() + 2, of.weight->shape.end()});
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(in * out * kernel));
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      const int64_t row = of.transposed ? (group * in + i) * out + o : (group * out + o) * in + i;
      for (int64_t k = 0; k < kernel; ++k) {
        indices.push_back(row * kernel + k);
      }
    }
  }
  return m.Take({of.weight}, {out, in * kernel}, std::move(indices));
}

// Windows of the channels of `group`: batch x (in, kernel) x places.
Value ColumnsOfGroup(const Arithmetic& m, const Convolution& of, const Windows& windows,
                     int64_t group, int64_t in) {
  const int64_t batch = of.x->shape[0];
  const int64_t channels = of.x->shape[1];
  const int64_t plane = ElementCount({of.x->shape.begin() + 2, of.x->shape.end()});
  const auto length = static_cast<int64_t>(windows.length);
  const int64_t places = ElementCount(windows.shape);
  const Shape shape = {batch, in * length, places};
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(ElementCount(shape)));
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < in; ++i) {
      const int64_t base = (n * channels + group * in + i) * plane;
      for (int64_t k = 0; k < length; ++k) {
        for (int64_t place = 0; place < places; ++place) {
          const int64_t at = windows.places[static_cast<size_t>(place * length + k)];
          indices.push_back(at < 0 ? -1 : base + at);
        }
      }
    }
  }
  return m.Take({of.x}, shape, std::move(indices));
}

Values Convolved(Call& call, const Arithmetic& m, const Convolution& of, const Windows& windows) {
  if (call.failed() || !m.problem().empty()) {
    return {nullptr};
  }
  const int64_t in = of.x->shape[1] / of.groups;
  const int64_t out = of.transposed ? of.weight->shape[1] : of.weight->shape[0] / of.groups;
  // No library uses a transform where steps are rounded to a 16-bit type.
  const size_t more = m.rounding().unit > 0x1p-16 ? 0 : kTermsOfFastAlgorithms;
  Values parts;
  for (int64_t group = 0; group < of.groups; ++group) {
    parts.push_back(m.MatMul(WeightOfGroup(m, of, group, in, out),
                             ColumnsOfGroup(m, of, windows, group, in), false, false, more));
    if (parts.back() == nullptr) {
      return {nullptr};
    }
  }
  // Groups side by side: batch, groups x out, places.
  const int64_t batch = of.x->shape[0];
  const int64_t places = ElementCount(windows.shape);
  Value whole = parts[0];
  if (of.groups > 1) {
    std::vector<int64_t> indices;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t group = 0; group < of.groups; ++group) {
        for (int64_t i = 0; i < out * places; ++i) {
          indices.push_back(group * batch * out * places + n * out * places + i);
        }
      }
    }
    whole = m.Take(parts, {batch, of.groups * out, places}, std::move(indices));
  }
  if (of.bias != nullptr) {
    if (static_cast<int64_t>(of.bias->size()) != of.groups * out) {
      return {call.Fail("its bias does not fit its channels")};
    }
    whole = m.Add(m.Stored(whole), m.Reshape(of.bias, {of.groups * out, 1}));
  }
  Shape shape = {batch, of.groups * out};
  shape.insert(shape.end(), windows.shape.begin(), windows.shape.end());
  if (of.unbatched) {
    shape.erase(shape.begin());
  }
  return {m.Reshape(whole, shape)};
}

// The tensors; false where they do not fit.
bool ReadTensors(Call& call, const Arithmetic& m, size_t dims, Convolution& of) {
  of.x = call.Tensor(0, "input");
  of.weight = call.Tensor(1, "weight");
  of.bias = call.OptionalTensor(2, "bias");
  of.groups = call.Int(6, "groups", 1);
  if (call.failed()) {
    return false;
  }
  of.unbatched = of.x->shape.size() == dims + 1;
  if (of.unbatched) {
    Shape shape = of.x->shape;
    shape.insert(shape.begin(), 1);
    of.x = m.Reshape(of.x, shape);
  }
  if (of.x->shape.size() != dims + 2 || of.weight->shape.size() != dims + 2 || of.groups < 1 ||
      of.x->shape[1] % of.groups != 0 || of.x->size() == 0 || of.weight->size() == 0 ||
      (of.transposed ? of.weight->shape[0] != of.x->shape[1]
                     : of.weight->shape[1] * of.groups != of.x->shape[1] ||
                           of.weight->shape[0] % of.groups != 0)) {
    call.Fail("convolution of unusual shapes");
    return false;
  }
  return true;
}

template <size_t kDims>
Values Convolve(Call& call, const Arithmetic& m) {
  Convolution of;
  if (!ReadTensors(call, m, kDims, of)) {
    return {nullptr};
  }
  const Shape input(of.x->shape.begin() + 2, of.x->shape.end());
  WindowSizes sizes;
  sizes.kernel.assign(of.weight->shape.begin() + 2, of.weight->shape.end());
  sizes.stride = Spread(call, call.Ints(3, "stride"), kDims, 1);
  sizes.dilation = Spread(call, call.Ints(5, "dilation"), kDims, 1);
  const std::string word = call.Text(4, "padding", "");
  if (word == "same") {
    return {call.Fail("padding \"same\" is not recomputed")};
  }
  sizes.padding = word.empty() ? Spread(call, call.Ints(4, "padding"), kDims, 0)
                               : std::vector<int64_t>(kDims, 0);
  if (call.failed()) {
    return {nullptr};
  }
  const std::vector<WindowsOfDim> dims = SlidingWindows(call, m, input, sizes);
  return call.failed() || !m.problem().empty() ? Values{nullptr}
                                               : Convolved(call, m, of, Joined(m, dims, input));
}

template <size_t kDims>
Values ConvolveTransposed(Call& call, const Arithmetic& m) {
  Convolution of;
  of.transposed = true;
  if (!ReadTensors(call, m, kDims, of)) {
    return {nullptr};
  }
  const Shape input(of.x->shape.begin() + 2, of.x->shape.end());
  WindowSizes sizes;
  sizes.kernel.assign(of.weight->shape.begin() + 2, of.weight->shape.end());
  sizes.stride = Spread(call, call.Ints(3, "stride"), kDims, 1);
  sizes.padding = Spread(call, call.Ints(4, "padding"), kDims, 0);
  sizes.dilation = Spread(call, call.Ints(7, "dilation"), kDims, 1);
  const std::vector<int64_t> more = Spread(call, call.Ints(5, "output_padding"), kDims, 0);
  if (call.failed()) {
    return {nullptr};
  }
  const std::vector<WindowsOfDim> dims = TransposedWindows(call, m, input, sizes, more);
  return call.failed() || !m.problem().empty() ? Values{nullptr}
                                               : Convolved(call, m, of, Joined(m, dims, input));
}

}  // namespace

OperatorList ConvolutionOperators() {
  return {
      {"conv1d", Convolve<1>},
      {"conv2d", Convolve<2>},
      {"conv3d", Convolve<3>},
      {"conv_transpose1d", ConvolveTransposed<1>},
      {"conv_transpose2d", ConvolveTransposed<2>},
      {"conv_transpose3d", ConvolveTransposed<3>},
  };
}

// Pooling: the largest element or the mean of each window.

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
