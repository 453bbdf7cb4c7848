// One array for people: `pt` of the interactive tool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/io/kernel_dump/dump_file.h"
#include "src/kernels/stats.h"
#include "src/report/table.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::kernel_dump {

// A tensor of a kernel dump as the framework knows it.

// Beyond this many bytes an unpacked tensor is refused.
inline constexpr uint64_t kMostPlainBytes = uint64_t{4} << 30U;

// Out of the blocks of the device and without padding, where the file tells how; else as it lies.
// kUnsupported for elements of a type that cannot be read.
Result<tensor::TensorBuffer> ReadPlainTensor(const io::kernel_dump::DumpedTensor& dumped);

// Statistics of one array, computed in blocks of fixed size.

kernels::TensorStats StatisticsOf(const TensorView& view);

// Values as NumPy prints them: with the fewest digits that tell one value of their type from its
// neighbours.

// An element of `dtype`: "3.133" of a float16, "2.71992" of a float32, "254" of an integer.
std::string NumpyText(DType dtype, double value);
// A mean of elements of `dtype`: of the same type for floats, of float64 for the others.
std::string NumpyMeanText(DType dtype, double value);

struct ArrayView {
  std::string facts;    // "[Shape: (2, 3)] [Dtype: float32] [Max: 1.5] [Min: 0.0] [Mean: 0.5]"
  report::Table table;  // the first 16 rows of 8 elements
  std::filesystem::path text_file;  // <file>.txt: all elements, one in a line
};

// "[Shape: ..] [Dtype: ..] [Max: ..] [Min: ..] [Mean: ..]"
std::string ArrayFacts(const Shape& shape, DType dtype, double max, double min, double mean);
std::string TupleText(const Shape& shape);  // "(2, 3)", "(6,)", as Python spells it

Result<ArrayView> ViewArray(const std::filesystem::path& file);

// Elements that are written as text, as a multiple of the size of their file; a small file may
// repeat one very often.
inline constexpr uint64_t kTimesFileOfText = 8;
inline constexpr uint64_t kFreeTextElements = uint64_t{1} << 24U;  // the same in addition

// The elements of `array`, the only one of its file, to `path`, one in a line, in place of an older
// file. kUnsupported beyond the limits above.
Status WriteArrayText(const std::filesystem::path& path, const TensorFile& source,
                      const NamedTensor& array);

}  // namespace msprobe::analysis::kernel_dump
