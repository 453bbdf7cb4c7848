// NumPy's element types and .npy headers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

struct NumpyDType {
  DType dtype = DType::kFloat32;
  bool byte_swapped = false;
};
// "<f4", ">i8", "|b1", "=c16". Types that msprobe does not know are kUnsupported, nonsense is
// kBadFormat. "V2" is bfloat16 as ml_dtypes writes it, or any other two bytes: taken only when the
// caller says so.
Result<NumpyDType> ParseNumpyDType(std::string_view descr, bool void16_is_bfloat16 = false);

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
  size_t data_offset = 0;
};
inline constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};

// Parses magic, version and the header literal; nothing in it is evaluated. The shape is not yet
// checked against the data.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes);
// The whole array in `bytes`.
Result<TensorView> ReadNpyArray(std::span<const std::byte> bytes, bool void16_is_bfloat16);
// The header NumPy writes for a row-major array, magic included. `descr` as in the dtype table.
std::string FormatNpyHeader(std::string_view descr, const Shape& shape);

}  // namespace msprobe::io
