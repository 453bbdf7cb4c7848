// The elements of a tensor of any layout as blocks of plain row-major little-endian bytes: the one
// walk of all that reads values, whether it sums, compares, converts or writes them. Memory is that
// of one block however large the tensor is, and a plain tensor is read where it lies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/mapped_reads.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::tensor {

// Elements of a block whose partial sums are added up block after block. The number is part of
// every mean, norm and metric down to the last bit: the kernels, their callers and recorded results
// agree on it. 64 Ki elements stay in the L2 cache.
inline constexpr size_t kSumBlockElements = size_t{1} << 16U;
// Elements copied or converted at a time where no result depends on the number: few enough for the
// cache beside what they become, enough to hide the cost of a call.
inline constexpr size_t kCopyBlockElements = size_t{1} << 14U;
// The same where the memory is on the stack of whoever trains or calls us.
inline constexpr size_t kStackBlockElements = size_t{1} << 10U;

// Any run of elements of one view, for walks over several views side by side. `scratch` grows to
// the largest run that has to be gathered and outlives the reader; the view does so too.
class BlockReader {
 public:
  // Where the elements of plain views are taken from: a mapped file is read, block by block, by
  // whoever looks at all of it once.
  enum class Source { kMemory, kFile };

  BlockReader(const TensorView& view, std::vector<std::byte>& scratch,
              Source source = Source::kMemory)
      : view_(view),
        is_plain_(view.is_plain()),
        element_bytes_(DTypeSize(view.dtype)),
        source_(source),
        scratch_(scratch) {}

  // Elements [first, first + count): where they lie, or gathered; valid until the next call.
  std::span<const std::byte> Read(size_t first, size_t count) {
    if (is_plain_) {
      const std::span<const std::byte> stored = Stored(first, count);
      return source_ == Source::kFile ? base::ReadMapped(stored, scratch_) : stored;
    }
    scratch_.resize(std::max(scratch_.size(), count * element_bytes_));
    return Gather(first, count, scratch_.data());
  }

  // The same, and a copy of them at `copy`, which has room for them.
  std::span<const std::byte> ReadAndCopy(size_t first, size_t count, std::byte* copy) {
    if (!is_plain_) {
      return Gather(first, count, copy);
    }
    const std::span<const std::byte> stored = Stored(first, count);
    std::memcpy(copy, stored.data(), stored.size());
    return stored;
  }

 private:
  std::span<const std::byte> Stored(size_t first, size_t count) const {
    return {view_.data + first * element_bytes_, count * element_bytes_};
  }
  std::span<const std::byte> Gather(size_t first, size_t count, std::byte* out) const {
    CopyElements(view_, static_cast<int64_t>(first), static_cast<int64_t>(count), out);
    return {out, count * element_bytes_};
  }

  const TensorView& view_;
  const bool is_plain_;
  const size_t element_bytes_;
  const Source source_;
  std::vector<std::byte>& scratch_;
};

// Calls visit(block, first) for all elements, `block_elements` at a time; `first` is the index of
// the block's first element. A visit may return a Status: an error ends the walk, which returns it.
template <typename Visit>
auto ForEachBlock(const TensorView& view, size_t block_elements, std::vector<std::byte>& scratch,
                  Visit visit) {
  using Outcome = std::invoke_result_t<Visit&, std::span<const std::byte>, size_t>;
  BlockReader reader(view, scratch);
  const auto count = static_cast<size_t>(view.element_count());
  for (size_t first = 0; first < count; first += block_elements) {
    const std::span<const std::byte> block =
        reader.Read(first, std::min(block_elements, count - first));
    if constexpr (std::is_void_v<Outcome>) {
      visit(block, first);
    } else if (Status status = visit(block, first); !status.ok()) {
      return status;
    }
  }
  return Outcome();
}

}  // namespace msprobe::tensor
