// What a differing value is of the other side's: twice as large, shifted, another part of it, ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::analysis::compare {

enum class RelationKind : uint8_t {
  kScale,         // one factor
  kPartialSum,    // one side lacks a reduction
  kReducedTwice,  // summed over the ranks more often than once
  kShift,         // elements moved along a dimension
  kPermutation,   // blocks of a dimension in another order
  kTranspose,     // dimensions swapped
  kMissingPart,   // a part of the elements is zero or absent on one side
  kWrongPart,     // another rank's part
  kPrecision,     // equal after rounding to a narrower dtype
  kConstant,      // an offset
  kStale,         // the other side's value of an earlier step or micro-batch
};
inline constexpr size_t kRelationKindCount = 11;
// "scale", "partial_sum", "reduced_twice", "shift", "permutation", "transpose", "missing_part",
// "wrong_part", "precision", "constant", "stale".
std::string_view RelationKindName(RelationKind kind);

struct Relation {
  RelationKind kind = RelationKind::kScale;
  std::optional<double> factor = {};  // NPU = factor x bench
  std::string what = {};              // behind "is": "2.000 x the reference"
  std::string cause = {};             // "reduced twice?"; may be empty

  std::string text() const { return cause.empty() ? what : what + " (" + cause + ")"; }
};

// "rank 1", "ranks 0, 2-5"; rising, not empty. Of many ranges the first eight.
std::string RanksText(const std::vector<int64_t>& ranks);

}  // namespace msprobe::analysis::compare
