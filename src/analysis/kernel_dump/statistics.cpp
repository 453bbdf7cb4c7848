#include "src/analysis/kernel_dump/statistics.h"

#include <vector>

#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::kernel_dump {

kernels::TensorStats StatisticsOf(const TensorView& view) {
  std::vector<std::byte> scratch;
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
                       });
  return kernels::FinishStats(total);
}

}  // namespace msprobe::analysis::kernel_dump
