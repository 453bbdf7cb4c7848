// The sums over one block of a box. Blocks have one size whatever the number of threads, and their
// sums are merged in order, so that figures do not depend on that number; all figures come from one
// walk over a block, since reading it is what takes the time.
#pragma once

#include <cstddef>
#include <vector>

#include "src/analysis/ckpt/metrics.h"
#include "src/analysis/ckpt/options.h"
#include "src/analysis/ckpt/refine.h"

namespace msprobe::analysis::ckpt {

// Per thread; grows to one block of each kind.
struct BlockScratch {
  std::vector<std::byte> stored_a;
  std::vector<std::byte> stored_b;
  std::vector<float> float_a;
  std::vector<float> float_b;
  std::vector<double> double_a;
  std::vector<double> double_b;
};

// Elements [first, first + count) of the box in row-major order, at most tensor::kSumBlockElements.
// `float32`: every element is rounded to float32 first, of a complex one the real part counts.
PairSums SumsOfBlock(const Box& box, int64_t first, int64_t count, const Tolerance& tolerance,
                     bool means, bool float32, BlockScratch& scratch);

// The sums of products alone, beyond the range of double, added to `sums`.
void WideSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                     WideSums& sums);

// The sums of products alone, each product rounded to float32 (see FlushedStep).
void FlushedSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                        kernels::ComparePartial& sums);

}  // namespace msprobe::analysis::ckpt
