// The elements of an array as numbers, block by block: for walks over two arrays side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::kernel_dump {

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

}  // namespace msprobe::analysis::kernel_dump
