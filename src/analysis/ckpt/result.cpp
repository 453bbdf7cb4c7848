#include "src/analysis/ckpt/result.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace msprobe::analysis::ckpt {

MatchedParameters MatchByName(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b) {
  std::unordered_map<std::string_view, size_t> places;
  places.reserve(b.parameters.size());
  for (size_t i = 0; i < b.parameters.size(); ++i) {
    places.emplace(b.parameters[i].name, i);
  }
  MatchedParameters matched;
  std::vector<bool> used(b.parameters.size(), false);
  for (const checkpoint::Parameter& parameter : a.parameters) {
    const auto place = places.find(parameter.name);
    if (place == places.end()) {
      matched.only_in_a.push_back({parameter.name, {}});
      continue;
    }
    used[place->second] = true;
    matched.pairs.push_back({parameter.name, parameter, b.parameters[place->second], {}});
  }
  for (size_t i = 0; i < b.parameters.size(); ++i) {
    if (!used[i]) {
      matched.only_in_b.push_back({b.parameters[i].name, {}});
    }
  }
  return matched;
}

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::string_view kNames[kOutcomeCount] = {
      "identical", "equal",         "close",      "rounding",
      "different", "shapes differ", "unreadable", "not comparable"};
  return kNames[static_cast<size_t>(outcome)];
}

size_t Comparison::CountOf(Outcome outcome) const {
  return static_cast<size_t>(std::count_if(
      pairs.begin(), pairs.end(), [&](const PairResult& pair) { return pair.outcome == outcome; }));
}

bool Comparison::nothing_compared() const {
  return std::none_of(pairs.begin(), pairs.end(), [](const PairResult& pair) {
    return pair.computed() && pair.sums.finite.element_count > 0;
  });
}

}  // namespace msprobe::analysis::ckpt
