#include "src/analysis/inspect/tensor_statistics.h"

#include <span>

#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::inspect {
namespace {

// Pages behind the reader are given back in runs of this many blocks.
constexpr size_t kBlocksPerRelease = 64;

}  // namespace

kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch) {
  const bool plain = view.is_plain();
  kernels::StatsPartial total;
  size_t released = 0;
  tensor::ForEachBlock(
      view, tensor::kSumBlockElements, scratch,
      [&](std::span<const std::byte> block, size_t first) {
        kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
        const size_t end = first + block.size() / DTypeSize(view.dtype);
        if (plain && end - released >= kBlocksPerRelease * tensor::kSumBlockElements) {
          file.ReleasePages(view, static_cast<int64_t>(released),
                            static_cast<int64_t>(end - released));
          released = end;
        }
      });
  return kernels::FinishStats(total);
}

}  // namespace msprobe::analysis::inspect
