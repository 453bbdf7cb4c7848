// What a differing value is of the other side's.
#include "src/analysis/compare/relation.h"

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::compare {

std::string_view RelationKindName(RelationKind kind) {
  constexpr std::array<std::string_view, kRelationKindCount> kNames = {
      "scale",        "partial_sum", "reduced_twice", "shift",    "permutation", "transpose",
      "missing_part", "wrong_part",  "precision",     "constant", "stale"};
  return kNames[static_cast<size_t>(kind)];
}

std::string RanksText(const std::vector<int64_t>& ranks) {
  constexpr size_t kMostRanges = 8;
  std::vector<std::string> ranges;
  size_t from = 0;
  while (from < ranks.size() && ranges.size() < kMostRanges) {
    size_t end = from + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    ranges.push_back(end - from == 1 ? fmt::format("{}", ranks[from])
                                     : fmt::format("{}-{}", ranks[from], ranks[end - 1]));
    from = end;
  }
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", base::Join(ranges, ", "),
                     from < ranks.size() ? fmt::format(" and {} more", ranks.size() - from) : "");
}

}  // namespace msprobe::analysis::compare
