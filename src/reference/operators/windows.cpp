#include "src/reference/operators/windows.h"

#include <algorithm>

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

// Of an input of `size` places that is divided into `count` parts.
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

}  // namespace msprobe::reference
