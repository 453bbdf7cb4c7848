// Windows that slide over the last dims of a tensor: what convolution and pooling have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"

namespace msprobe::reference {

// Along one dim: for each place of the output the places of the input that it is made of, -1 beyond
// the edge. All of the same length.
struct WindowsOfDim {
  std::vector<std::vector<int64_t>> places;
  // How many of a window's places lie within the input, and within the padding, too.
  std::vector<int64_t> inside;
  std::vector<int64_t> padded;
};

// Over all dims: row-major places in the input's last dims, or -1.
struct Windows {
  Shape shape;                  // of the output's last dims
  size_t length = 0;            // of one window
  std::vector<int64_t> places;  // shape x length
  std::vector<int64_t> inside;  // one number per window
  std::vector<int64_t> padded;
};

// Kernel sizes and their like, one number per dim.
struct WindowSizes {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceiling = false;  // a last window may begin inside and end outside
};
// Null places (with a problem of the call, or of `arithmetic`) where sizes are impossible, or out
// of proportion to the call's tensors.
std::vector<WindowsOfDim> SlidingWindows(Call& call, const Arithmetic& arithmetic,
                                         const Shape& input, const WindowSizes& sizes);
// Windows of a transposed convolution: places whose window of the forward one would hold this.
std::vector<WindowsOfDim> TransposedWindows(Call& call, const Arithmetic& arithmetic,
                                            const Shape& input, const WindowSizes& sizes,
                                            const std::vector<int64_t>& output_padding);
// Windows that divide the input into `output` parts, as evenly as they can.
std::vector<WindowsOfDim> AdaptiveWindows(Call& call, const Arithmetic& arithmetic,
                                          const Shape& input, const Shape& output);

// Empty, with a problem, where they are out of proportion to the call's tensors.
Windows Joined(const Arithmetic& arithmetic, const std::vector<WindowsOfDim>& dims,
               const Shape& input);
Shape WindowsResultShape(const Shape& leading, const Windows& windows);
// The mean of each window of x, whose last dims the windows slide over; `by_padding`: padding
// counts; `divisor` other than 0: instead of the count.
Value WindowMeans(const Arithmetic& arithmetic, const Value& x, const Shape& leading,
                  const Windows& windows, bool by_padding, double divisor);

}  // namespace msprobe::reference
