#include "src/analysis/ckpt/match.h"

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

}  // namespace msprobe::analysis::ckpt
