// Inside of the alignment: the table of both algorithms, a bit per cell, 64 cells at a time.
//
// Write L[i][j] for what the algorithms count at row i (comparison) and column j (base). Both walk
// back by the same rule: where the elements are equal to the pair before both; else up where
// L[i][j-1] < L[i-1][j], else left. Along a row L rises by 0 or 1 per column in both, and at
// unequal elements it rises exactly where the walk goes up. So these rises are all that is kept.
//
// kLongest: L is the length of a longest common subsequence; a row's rises follow from the last
// row's by one addition per word, its carry running on.
// kLegacy: L[i][j] is L[i][j-1] + 1 at equal elements, else max(L[i][j-1], L[i-1][j]). The surplus
// over the row before, d, grows by one where elements are equal and the row before did not rise;
// where they differ and it did rise, the row rises only if d is 0, and d shrinks by one. So every
// new rise takes away the next old one to its right that is left, as an opening bracket does with a
// closing one. In the first row L is at most 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/analysis/perf/alignment.h"

namespace msprobe::analysis::perf {

// Holds the whole table where it fits into `block_bytes`, else tiles of as many rows as would fit.
// Pairs are appended in rising order, places counted from `base_offset` and `comparison_offset`.
void AlignInTable(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                  Alignment method, uint32_t base_offset, uint32_t comparison_offset,
                  size_t block_bytes, std::vector<AlignedPair>& pairs);

}  // namespace msprobe::analysis::perf
