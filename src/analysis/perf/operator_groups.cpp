#include "src/analysis/perf/operator_groups.h"

namespace msprobe::analysis::perf {

using profile::kNoText;
using profile::TextId;

std::vector<OperatorGroup> GroupByName(const OperatorSide& base,
                                       std::span<const uint32_t> base_nodes,
                                       const OperatorSide& comparison,
                                       std::span<const uint32_t> comparison_nodes) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<OperatorGroup> groups;
  const profile::Texts& base_texts = base.profile().texts;
  const profile::Texts& comparison_texts = comparison.profile().texts;
  std::vector<uint32_t> of_base(base_texts.size(), kNone);  // group of each name
  std::vector<uint32_t> of_comparison(comparison_texts.size(), kNone);
  for (const uint32_t node : base_nodes) {
    const TextId name = base.operation(node).name;
    if (of_base[name] == kNone) {
      of_base[name] = static_cast<uint32_t>(groups.size());
      groups.push_back({base_texts[name], {}, {}});
    }
    groups[of_base[name]].base.push_back(node);
  }
  for (const uint32_t node : comparison_nodes) {
    const TextId name = comparison.operation(node).name;
    uint32_t& group = of_comparison[name];
    if (group == kNone) {
      const std::string_view text = comparison_texts[name];
      const TextId known = base_texts.Find(text);
      if (known != kNoText || text.empty()) {
        group = of_base[known];
      }
      if (group == kNone) {
        group = static_cast<uint32_t>(groups.size());
        groups.push_back({text, {}, {}});
      }
    }
    groups[group].comparison.push_back(node);
  }
  return groups;
}

std::vector<OperatorGroup> GroupByName(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs) {
  std::vector<uint32_t> base_nodes;
  std::vector<uint32_t> comparison_nodes;
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      base_nodes.push_back(pair.base);
    }
    if (pair.comparison != kUnmatched) {
      comparison_nodes.push_back(pair.comparison);
    }
  }
  return GroupByName(base, base_nodes, comparison, comparison_nodes);
}

}  // namespace msprobe::analysis::perf
