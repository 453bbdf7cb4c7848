#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check::internal {

void Parameters::Set(const std::string& name, json::ConfigValue value) {
  const auto [place, is_new] = places_.emplace(name, object_.members.size());
  if (is_new) {
    object_.members.emplace_back(name, std::move(value));
  } else {
    object_.members[place->second].second = std::move(value);
  }
}

const json::ConfigValue* Parameters::Find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &object_.members[place->second].second;
}

json::ConfigValue Parameters::Take() {
  places_.clear();
  return std::exchange(object_, MakeObject());
}

}  // namespace msprobe::analysis::config_check::internal
