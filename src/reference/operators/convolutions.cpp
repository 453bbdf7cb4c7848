// Convolutions as products of matrices: the windows of the input are laid out as columns. Fast
// algorithms (Winograd, FFT) are allowed: their errors grow with their tiles, not with the sums (B.
// Barabasz et al., Error analysis and improving the accuracy of Winograd convolution, ACM TOMS 46
// (2020)); as if sums had so many terms more.
#include <algorithm>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"
#include "src/reference/operators/windows.h"

namespace msprobe::reference {
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
  // In steps of a 16-bit type nobody transforms.
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

}  // namespace msprobe::reference
