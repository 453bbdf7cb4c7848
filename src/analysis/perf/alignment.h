// Two sequences laid beside each other so that equal elements stand in pairs. A profile holds as
// many operators as make a table of numbers too large for memory; one bit per cell is enough to
// walk back through it (alignment_table.h), and what does not fit even so is made again instead of
// kept.
#pragma once

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
// table only every n-th row is kept, and tiles of it are made again where the walk comes by.
//
// Beyond `max_cells` both sides are first cut where runs of elements occur equally often on either
// side, and what lies between is aligned exactly; time and memory stay linear.
Aligned Align(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
              Alignment method, uint64_t max_cells = kMaxExactCells);

}  // namespace msprobe::analysis::perf
