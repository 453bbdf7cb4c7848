// Sheets OperatorCompare and OperatorCompareStatistic: what operators took on the device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/sheet.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// Operators of both sides by name.

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

// Which operator of the comparison stands beside which of the base.

// What matching goes by, for both sides in one numbering: the name, replaced where the options say
// so, and where they ask for it the input shapes.
class OperatorKeys {
 public:
  // Borrows all three.
  OperatorKeys(const profile::Profile& base, const profile::Profile& comparison,
               const PairOptions& options);

  uint32_t Base(const profile::Operator& operation) { return Key(sides_[0], operation); }
  uint32_t Comparison(const profile::Operator& operation) { return Key(sides_[1], operation); }

 private:
  // Equal texts of either side have equal numbers.
  using Numbers = std::unordered_map<std::string_view, uint32_t>;
  struct KnownNumbers {
    const profile::Profile* profile = nullptr;
    std::vector<uint32_t> names;   // numbers by TextId, once they were asked for
    std::vector<uint32_t> shapes;  // the same
  };

  uint32_t Key(KnownNumbers& side, const profile::Operator& operation);
  std::string_view Renamed(std::string_view name) const;

  const PairOptions& options_;
  std::array<KnownNumbers, 2> sides_;
  Numbers names_;
  Numbers shapes_;
  std::unordered_map<uint64_t, uint32_t> pairs_;  // of a name and shapes
};

// Pairs of nodes of the two trees in the order in which sheets list them. The top operators of both
// sides, in stretches on and off the thread that runs backward passes where both sides have one;
// pairs with more than options.max_kernels kernels give way to their children, as deep as it goes.
// Without details nothing is paired. Warns where sequences were too long to be aligned exactly, and
// where not a single pair was found.
std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings);

// A row per pair of MatchOperators, in order.
report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const PairOptions& options);

// Milliseconds on the device of a node and everything below it.
double DeviceMs(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue);

// Sheets MemoryCompare and MemoryCompareStatistic: what operators allocated.

// A row per pair of MatchOperators, in order.
report::FormattedTable MemoryDetails(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable MemoryStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// What a node and everything below it allocated, in MB, and for how long altogether.
struct Allocated {
  double mb = 0;
  double ms = 0;
};
Allocated AllocatedBy(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue);

// Sheet ApiCompare: what calls took on the host.

// A row per name. No rows where a side has no operators; warns where that is for want of the step.
report::FormattedTable ApiCompare(const OperatorSide& base, const OperatorSide& comparison,
                                  const PairOptions& options, std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
