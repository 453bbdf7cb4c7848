// Interpolation: every place of the output is a weighted sum of neighbours in the input, one dim
// after the other. Weights follow from coordinates, which implementations compute in the working
// type: they may be off by some units of the coordinate, and neighbours change where it is whole.
// Cubic weights: R. Keys, Cubic convolution interpolation for digital image processing, IEEE TASSP
// 29 (1981), with a = -0.75 as the frameworks have it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "src/reference/operators/operators.h"
#include "src/reference/operators/windows.h"

namespace msprobe::reference {
namespace {

constexpr size_t kTaps = 4;  // the neighbours at -1, 0, 1 and 2
constexpr double kCoordinateUnits = 8;

enum class Mode : uint8_t { kNearest, kNearestExact, kLinear, kCubic, kArea };

// Along one dim.
struct Axis {
  int64_t in = 0;
  int64_t out = 0;
  double scale = 0;  // input places per output place
  bool align_corners = false;
};

double SourceOf(const Axis& axis, int64_t place, Mode mode) {
  const auto at = static_cast<double>(place);
  if (mode == Mode::kNearest) {
    return at * axis.scale;
  }
  if (mode == Mode::kNearestExact) {
    return (at + 0.5) * axis.scale;
  }
  if (axis.align_corners) {
    return at * axis.scale;
  }
  const double source = (at + 0.5) * axis.scale - 0.5;
  return mode == Mode::kLinear ? std::max(source, 0.0) : source;
}

std::array<double, kTaps> Weights(double t, Mode mode) {
  if (mode == Mode::kLinear) {
    return {0, 1 - t, t, 0};
  }
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

// x with dim `dim` taken at `places`.
Value TakeAlong(const Arithmetic& m, const Value& x, size_t dim,
                const std::vector<int64_t>& places) {
  Shape shape = x->shape;
  const int64_t in = shape[dim];
  shape[dim] = static_cast<int64_t>(places.size());
  if (!m.Affords(shape)) {
    return nullptr;
  }
  const int64_t inner =
      ElementCount(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end()));
  const int64_t outer =
      ElementCount(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dim)));
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(ElementCount(shape)));
  for (int64_t i = 0; i < outer; ++i) {
    for (const int64_t place : places) {
      for (int64_t j = 0; j < inner; ++j) {
        indices.push_back((i * in + place) * inner + j);
      }
    }
  }
  return m.Take({x}, shape, std::move(indices));
}

// Weights of the places of dim `dim`, to be broadcast over the others.
Value Along(const Shape& shape, size_t dim, std::vector<double> weights,
            std::vector<double> errors) {
  Shape own(shape.size() - dim, 1);
  own[0] = static_cast<int64_t>(weights.size());
  return MakeValue(own, std::move(weights), std::move(errors));
}

// The nearest neighbours along all dims at once: gradients are sums over all of them in any order.
Value Nearest(const Arithmetic& m, const Value& x, const std::vector<Axis>& axes, Mode mode) {
  const size_t first = x->shape.size() - axes.size();
  std::vector<int64_t> indices = {0};  // of the output's places within a plane
  Shape shape(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(first));
  const int64_t planes = ElementCount(shape);
  std::vector<Value> free;
  for (size_t dim = 0; dim < axes.size(); ++dim) {
    const Axis& axis = axes[dim];
    shape.push_back(axis.out);
    if (!m.Affords(shape)) {
      return nullptr;
    }
    std::vector<double> errors(static_cast<size_t>(axis.out), 0.0);
    std::vector<int64_t> places;
    // A scale that float holds exactly is multiplied exactly, too.
    const bool is_exact = static_cast<double>(static_cast<float>(axis.scale)) == axis.scale;
    for (int64_t i = 0; i < axis.out; ++i) {
      const double source = SourceOf(axis, i, mode);
      places.push_back(
          std::clamp(static_cast<int64_t>(std::floor(source)), int64_t{0}, axis.in - 1));
      const double slack = kCoordinateUnits * 0x1p-24 * (source + 1);
      if (!is_exact && std::fabs(source - std::round(source)) <= slack && source > slack) {
        errors[static_cast<size_t>(i)] = std::numeric_limits<double>::infinity();
      }
    }
    if (std::any_of(errors.begin(), errors.end(), [](double error) { return error > 0; })) {
      free.push_back(Along(x->shape, first + dim,
                           std::vector<double>(static_cast<size_t>(axis.out), 1.0),
                           std::move(errors)));
    }
    std::vector<int64_t> further;
    further.reserve(indices.size() * places.size());
    for (const int64_t index : indices) {
      for (const int64_t place : places) {
        further.push_back(index * axis.in + place);
      }
    }
    indices = std::move(further);
  }
  const int64_t plane = planes == 0 ? 0 : static_cast<int64_t>(x->size()) / planes;
  std::vector<int64_t> all;
  all.reserve(static_cast<size_t>(planes) * indices.size());
  for (int64_t i = 0; i < planes; ++i) {
    for (const int64_t index : indices) {
      all.push_back(i * plane + index);
    }
  }
  Value result = m.Take({x}, shape, std::move(all));
  for (const Value& factor : free) {
    result = m.Multiply(result, factor);
  }
  return result;
}

Value Weighted(const Arithmetic& m, const Value& x, size_t dim, const Axis& axis, Mode mode) {
  Shape shape = x->shape;
  shape[dim] = axis.out;
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::array<std::vector<int64_t>, kTaps> places;
  std::array<std::vector<double>, kTaps> weights;
  std::array<std::vector<double>, kTaps> errors;
  for (int64_t i = 0; i < axis.out; ++i) {
    const double source = SourceOf(axis, i, mode);
    const double floor = std::floor(source);
    const double t = source - floor;
    const double slack = kCoordinateUnits * m.rounding().unit * (std::fabs(source) + 1);
    const std::array<double, kTaps> weight = Weights(t, mode);
    for (size_t tap = 0; tap < kTaps; ++tap) {
      places[tap].push_back(std::clamp(static_cast<int64_t>(floor) + static_cast<int64_t>(tap) - 1,
                                       int64_t{0}, axis.in - 1));
      weights[tap].push_back(weight[tap]);
      const bool is_reached =
          mode == Mode::kCubic || tap == 1 || tap == 2 || (tap == 0 ? t <= slack : 1 - t <= slack);
      errors[tap].push_back(is_reached ? (mode == Mode::kCubic ? 3 : 1) * slack : 0);
    }
  }
  Value sum;
  for (size_t tap = 0; tap < kTaps; ++tap) {
    const auto is_zero = [](double number) { return number == 0; };
    if (std::all_of(weights[tap].begin(), weights[tap].end(), is_zero) &&
        std::all_of(errors[tap].begin(), errors[tap].end(), is_zero)) {
      continue;
    }
    const Value part =
        m.Multiply(TakeAlong(m, x, dim, places[tap]),
                   Along(x->shape, dim, std::move(weights[tap]), std::move(errors[tap])));
    sum = sum == nullptr ? part : m.Add(sum, part);
  }
  return sum;
}

std::optional<Mode> ModeOf(const std::string& text) {
  if (text == "nearest") {
    return Mode::kNearest;
  }
  if (text == "nearest-exact") {
    return Mode::kNearestExact;
  }
  if (text == "linear" || text == "bilinear" || text == "trilinear") {
    return Mode::kLinear;
  }
  if (text == "bicubic") {
    return Mode::kCubic;
  }
  if (text == "area") {
    return Mode::kArea;
  }
  return std::nullopt;
}

// Numbers of an argument that is one number or a list of them.
std::vector<double> Factors(Call& call, size_t position, std::string_view name, size_t count) {
  const uint32_t index = call.Find(position, name);
  const dump::EntryTree& tree = call.tree();
  std::vector<double> factors;
  if (tree[index].kind != dump::NodeKind::kList) {
    factors.assign(count, call.Number(position, name));
    return factors;
  }
  tree.ForEachChild(index, [&](uint32_t child) {
    const uint32_t value =
        tree[child].kind == dump::NodeKind::kObject ? tree.Find(child, "value") : child;
    factors.push_back(value == dump::EntryTree::kNone ? 0 : tree[value].number);
  });
  if (factors.size() != count) {
    call.Fail("not a scale for each dim");
    factors.assign(count, 1);
  }
  return factors;
}

// Means over the parts into which the output divides the input.
Value Area(Call& call, const Arithmetic& m, const Value& x, const std::vector<Axis>& axes) {
  const auto split = x->shape.begin() + 2;
  const Shape input(split, x->shape.end());
  Shape output;
  for (const Axis& axis : axes) {
    output.push_back(axis.out);
  }
  const std::vector<WindowsOfDim> dims = AdaptiveWindows(call, m, input, output);
  return call.failed() || !m.problem().empty()
             ? nullptr
             : WindowMeans(m, x, Shape(x->shape.begin(), split), Joined(m, dims, input), false, 0);
}

Values Interpolate(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const std::optional<Mode> mode = ModeOf(call.Text(3, "mode", "nearest"));
  if (!mode) {
    return {call.Fail("this mode of interpolation is not known")};
  }
  if (call.failed() || x->shape.size() < 3 || x->size() == 0) {
    return {call.Fail("interpolation of unusual shapes")};
  }
  if (call.Bool(6, "antialias", false)) {
    return {call.Fail("interpolation with antialiasing is not recomputed")};
  }
  const size_t dims = x->shape.size() - 2;
  const bool align_corners = call.Bool(4, "align_corners", false);
  const bool by_size = call.Has(1, "size");
  if (by_size == call.Has(2, "scale_factor")) {
    return {call.Fail("interpolation needs a size or a scale")};
  }
  const std::vector<int64_t> sizes =
      by_size ? Spread(call, call.Ints(1, "size"), dims, 0) : std::vector<int64_t>();
  const std::vector<double> factors =
      by_size ? std::vector<double>() : Factors(call, 2, "scale_factor", dims);
  const bool keeps_factor = !by_size && !call.Bool(5, "recompute_scale_factor", false);
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims && !call.failed(); ++i) {
    Axis axis;
    axis.in = x->shape[i + 2];
    axis.align_corners = align_corners && (*mode == Mode::kLinear || *mode == Mode::kCubic);
    const double size = by_size ? static_cast<double>(sizes[i])
                                : std::floor(static_cast<double>(axis.in) * factors[i]);
    if (!(size >= 1 && size < 0x1p31)) {
      return {call.Fail("interpolation to nothing")};
    }
    axis.out = static_cast<int64_t>(size);
    axis.scale =
        axis.align_corners
            ? (axis.out > 1 ? static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1)
                            : 0)
        : keeps_factor ? 1 / factors[i]
                       : static_cast<double>(axis.in) / static_cast<double>(axis.out);
    axes.push_back(axis);
  }
  if (call.failed()) {
    return {nullptr};
  }
  if (*mode == Mode::kArea) {
    return {Area(call, m, x, axes)};
  }
  if (*mode == Mode::kNearest || *mode == Mode::kNearestExact) {
    return {Nearest(m, x, axes, *mode)};
  }
  Value result = x;
  for (size_t i = dims; i-- > 0 && result != nullptr;) {
    result = Weighted(m, result, i + 2, axes[i], *mode);
  }
  return {result};
}

}  // namespace

OperatorList InterpolationOperators() { return {{"interpolate upsample", Interpolate}}; }

}  // namespace msprobe::reference
