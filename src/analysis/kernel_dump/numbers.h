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
#include "src/kernels/convert.h"
#include "src/kernels/stats.h"
#include "src/report/table.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::kernel_dump {

// The elements of an array as numbers, block by block: for walks over two arrays side by side.

// Number is float or double; behind the end of the array there are zeros. The view must outlive it.
template <typename Number>
class NumberReader {
 public:
  explicit NumberReader(const TensorView& view)
      : reader_(view, scratch_),
        dtype_(view.dtype),
        count_(static_cast<size_t>(view.element_count())) {}

  // Valid until the next call.
  std::span<const Number> Read(size_t first, size_t count) {
    numbers_.assign(count, 0);
    if (first < count_) {
      const size_t here = std::min(count, count_ - first);
      const std::span<const std::byte> block = reader_.Read(first, here);
      const std::span<Number> out = std::span(numbers_).first(here);
      if constexpr (std::is_same_v<Number, float>) {
        kernels::WidenToFloat(dtype_, block, out);
      } else {
        kernels::WidenToDouble(dtype_, block, out);
      }
    }
    return numbers_;
  }

 private:
  std::vector<std::byte> scratch_;
  tensor::BlockReader reader_;
  DType dtype_;
  size_t count_;
  std::vector<Number> numbers_;
};

// Calls visit(a[i], b[i]) for every element of two arrays of as many.
template <typename Number, typename Visit>
void ForEachPair(const TensorView& a, const TensorView& b, const Visit& visit) {
  NumberReader<Number> a_numbers(a);
  NumberReader<Number> b_numbers(b);
  const auto count = static_cast<size_t>(a.element_count());
  for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
    const size_t here = std::min(tensor::kCopyBlockElements, count - first);
    const std::span<const Number> x = a_numbers.Read(first, here);
    const std::span<const Number> y = b_numbers.Read(first, here);
    for (size_t i = 0; i < here; ++i) {
      visit(x[i], y[i]);
    }
  }
}

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
