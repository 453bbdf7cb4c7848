#include "src/analysis/rl/result.h"

#include <algorithm>

namespace msprobe::analysis::rl {

bool HasDifferences(const TokenSummary& summary) {
  return summary.numbers.different > 0 ||
         summary.unpaired + summary.other_shape + summary.failed > 0;
}

bool ComparedNothing(const Comparison& comparison) {
  const auto compared = [](const auto& summary) { return summary.compared > 0; };
  return std::none_of(comparison.keys.begin(), comparison.keys.end(), compared) &&
         std::none_of(comparison.tokens.begin(), comparison.tokens.end(), compared);
}

bool HasDifferentKeys(const Comparison& comparison) {
  return std::any_of(comparison.keys.begin(), comparison.keys.end(), [](const KeySummary& key) {
    return key.identical < key.compared || key.only_first + key.only_second + key.failed > 0;
  });
}

bool HasDifferences(const Comparison& comparison) {
  return HasDifferentKeys(comparison) ||
         std::any_of(comparison.tokens.begin(), comparison.tokens.end(),
                     [](const TokenSummary& tokens) { return HasDifferences(tokens); });
}

}  // namespace msprobe::analysis::rl
