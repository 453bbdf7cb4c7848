// Operators of both sides by name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/operator_tree.h"

namespace msprobe::analysis::perf {

struct OperatorGroup {
  std::string_view name;  // of the profiles' texts
  std::vector<uint32_t> base;
  std::vector<uint32_t> comparison;
};

// Names of the base by first appearance, then those that only the comparison has.
std::vector<OperatorGroup> GroupByName(const OperatorSide& base,
                                       std::span<const uint32_t> base_nodes,
                                       const OperatorSide& comparison,
                                       std::span<const uint32_t> comparison_nodes);
// The operators of pairs, each side's in their order.
std::vector<OperatorGroup> GroupByName(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs);

// What the operators of one name amount to.
template <typename Sum>
struct GroupAmounts {
  std::string_view name;
  Sum base{};
  Sum comparison{};
  int64_t base_count = 0;
  int64_t comparison_count = 0;
  Difference difference;  // of what they are ranked by
};

// The operators of pairs by name, the largest growth first. `sum_up(side, nodes)` gives a Sum,
// `rank_by(sum)` the number of it that counts.
template <typename SumUp, typename RankBy>
auto RankGroups(const OperatorSide& base, const OperatorSide& comparison,
                std::span<const AlignedPair> pairs, const SumUp& sum_up, const RankBy& rank_by) {
  using Sum = decltype(sum_up(base, std::span<const uint32_t>()));
  std::vector<GroupAmounts<Sum>> ranked;
  for (const OperatorGroup& group : GroupByName(base, comparison, pairs)) {
    GroupAmounts<Sum>& row = ranked.emplace_back();
    row.name = group.name;
    row.base = sum_up(base, group.base);
    row.comparison = sum_up(comparison, group.comparison);
    row.base_count = static_cast<int64_t>(group.base.size());
    row.comparison_count = static_cast<int64_t>(group.comparison.size());
    row.difference = Differ(rank_by(row.base), rank_by(row.comparison));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const GroupAmounts<Sum>& a, const GroupAmounts<Sum>& b) {
                     return a.difference.difference > b.difference.difference;
                   });
  return ranked;
}

}  // namespace msprobe::analysis::perf
