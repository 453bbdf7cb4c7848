// Operators of both sides by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/analysis/perf/alignment.h"
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

}  // namespace msprobe::analysis::perf
