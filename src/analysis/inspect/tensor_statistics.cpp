#include "src/analysis/inspect/tensor_statistics.h"

#include <algorithm>

#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis {
namespace {

constexpr auto kBlock = static_cast<int64_t>(kernels::kBlockElements);
// Pages behind the reader are given back in runs of this many blocks.
constexpr int64_t kBlocksPerRelease = 64;

}  // namespace

kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch) {
  const size_t element_bytes = DTypeSize(view.dtype);
  const int64_t count = view.element_count();
  const bool plain = view.is_plain();
  if (!plain && scratch.size() < kernels::kBlockElements * element_bytes) {
    scratch.resize(kernels::kBlockElements * element_bytes);
  }
  kernels::StatsPartial total;
  int64_t released = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = std::min(kBlock, count - first);
    const size_t bytes = static_cast<size_t>(length) * element_bytes;
    std::span<const std::byte> block;
    if (plain) {
      block = {view.data + static_cast<size_t>(first) * element_bytes, bytes};
    } else {
      tensor::CopyElements(view, first, length, scratch.data());
      block = {scratch.data(), bytes};
    }
    const kernels::StatsPartial partial = kernels::StatsOfBlock(view.dtype, block);
    if (first == 0) {
      total = partial;
    } else {
      kernels::MergeStats(total, partial);
    }
    if (plain && first + length - released >= kBlocksPerRelease * kBlock) {
      file.ReleasePages(view, released, first + length - released);
      released = first + length;
    }
  }
  return kernels::FinishStats(total);
}

}  // namespace msprobe::analysis
