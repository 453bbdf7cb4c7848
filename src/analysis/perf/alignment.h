// Aligns two sequences: pairs of equal elements, in order. A profile holds so many operators that a
// table of numbers would be too large for memory; one bit per cell is enough to walk back through
// it, and tiles that do not fit even so are recomputed instead of kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/analysis/perf/options.h"

namespace msprobe::analysis::perf {

inline constexpr uint32_t kUnmatched = UINT32_MAX;

struct AlignedPair {
  uint32_t base = kUnmatched;  // places in the sequences; at most one of them kUnmatched
  uint32_t comparison = kUnmatched;
  bool operator==(const AlignedPair&) const = default;
};

struct Aligned {
  std::vector<AlignedPair> pairs;  // both sides rising
  bool is_exact = true;            // false: too long for it; cut at landmarks first
};

// Up to this many pairs of elements (200,000 x 200,000) sequences are aligned exactly.
inline constexpr uint64_t kMaxExactCells = 40'000'000'000U;

// kLegacy: the table of the Python tool, in which a row is built over the one before it, and the
// walk through it; equal to it in every pair. kLongest: a longest common subsequence, pairs as late
// as possible. Time: about a cycle per pair of elements at most, for either. Memory: linear, plus
// one bit for each of at most comparison.size() rows of base.size() that 32 MiB hold; of a larger
// table only every n-th row is kept, and its tiles are recomputed where the walk passes.
//
// Beyond `max_cells` both sides are first cut where runs of elements occur equally often on either
// side, and what lies between is aligned exactly; time and memory stay linear.
Aligned Align(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
              Alignment method, uint64_t max_cells = kMaxExactCells);

// Appends nodes without a partner, the base's first.
void AppendUnmatched(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                     std::vector<AlignedPair>& pairs);

// Aligns two lists of nodes by keys of each, and appends the pairs of nodes. False: not exactly.
template <typename BaseKey, typename ComparisonKey>
bool AlignNodes(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                const BaseKey& base_key, const ComparisonKey& comparison_key, Alignment method,
                std::vector<AlignedPair>& pairs) {
  std::vector<uint32_t> base_keys(base.size());
  std::vector<uint32_t> comparison_keys(comparison.size());
  std::transform(base.begin(), base.end(), base_keys.begin(), base_key);
  std::transform(comparison.begin(), comparison.end(), comparison_keys.begin(), comparison_key);
  const Aligned aligned = Align(base_keys, comparison_keys, method);
  for (const AlignedPair& pair : aligned.pairs) {
    pairs.push_back({pair.base == kUnmatched ? kUnmatched : base[pair.base],
                     pair.comparison == kUnmatched ? kUnmatched : comparison[pair.comparison]});
  }
  return aligned.is_exact;
}

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

// Holds the whole table where it fits into `block_bytes`, else tiles of as many rows as would fit.
// Pairs are appended in rising order, places counted from `base_offset` and `comparison_offset`.
void AlignInTable(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                  Alignment method, uint32_t base_offset, uint32_t comparison_offset,
                  size_t block_bytes, std::vector<AlignedPair>& pairs);

}  // namespace msprobe::analysis::perf
