#include "src/analysis/config_check/rules.h"

#include <algorithm>
#include <cassert>

#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/report/advice.h"

namespace msprobe::resources {
extern const std::string_view kConfigCheckRules;
}

namespace msprobe::analysis::config_check {
namespace {

using json::Json;

std::string Text(const Json& object, std::string_view key) {
  return json::TextOf(json::Member(object, key));
}

std::vector<std::string> Texts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& item : json::ItemsOf(list)) {
    texts.push_back(json::TextOf(item));
  }
  return texts;
}

VariableOnDevice DeviceOf(const Json& variable, std::string_view device) {
  const Json& known = json::Member(variable, device);
  return {Text(known, "name"), json::Find(known, "default")};
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return lower;
}

// The file is a part of the program: a test loads it, so nothing in it can be missing here.
Rules Load() {
  Result<Json> parsed = json::ParseDocument(resources::kConfigCheckRules);
  assert(parsed.ok());
  Rules rules;
  rules.tree = std::make_shared<const Json>(*std::move(parsed));
  const auto member = [&rules](std::string_view key) -> const Json& {
    return json::Member(*rules.tree, key);
  };
  for (const Json& row : member("variables")) {
    rules.variables.push_back({DeviceOf(row, "npu"), DeviceOf(row, "gpu"),
                               report::AdviceText(Text(row, "why")),
                               report::AdviceText(Text(row, "fix"))});
  }
  for (const Json& row : member("further_variables")) {
    rules.further_variables.push_back({Text(row, "name"), Text(row, "device"), Text(row, "why")});
  }
  rules.local_variables = Texts(member("local_variables"));
  rules.packages = Texts(member("packages"));
  for (const Json& row : member("further_packages")) {
    rules.further_packages.push_back({Text(row, "name"), Text(row, "one_side") == "error"});
  }
  for (const auto& [name, others] : member("aliases").items()) {
    rules.aliases.emplace_back(name, Texts(others));
  }
  for (const auto& [name, check] : member("checks").items()) {
    rules.checks.emplace_back(name, Remedy{report::AdviceText(Text(check, "why")),
                                           report::AdviceText(Text(check, "fix"))});
  }
  for (const Json& row : member("topics")) {
    rules.topics.push_back({Texts(json::Member(row, "names")), Text(row, "why")});
  }
  return rules;
}

}  // namespace

bool Rules::Compares(std::string_view variable) const {
  return std::any_of(variables.begin(), variables.end(),
                     [variable](const VariableRule& rule) {
                       return rule.npu.name == variable || rule.gpu.name == variable;
                     }) ||
         std::any_of(further_variables.begin(), further_variables.end(),
                     [variable](const FurtherVariable& other) { return other.name == variable; });
}

bool Rules::IsLocal(std::string_view variable) const {
  return std::any_of(
      local_variables.begin(), local_variables.end(),
      [variable](const std::string& pattern) { return base::GlobMatch(pattern, variable); });
}

const Remedy& Rules::RemedyOf(std::string_view part) const {
  static const Remedy nothing;
  const auto found = std::find_if(checks.begin(), checks.end(),
                                  [part](const auto& entry) { return entry.first == part; });
  return found == checks.end() ? nothing : found->second;
}

size_t Rules::TopicOf(std::string_view name) const {
  const std::string lower = Lower(name);
  for (size_t topic = 0; topic < topics.size(); ++topic) {
    for (const std::string& pattern : topics[topic].names) {
      if (base::GlobMatch(pattern, lower)) {
        return topic;
      }
    }
  }
  return topics.size();
}

const Rules& BuiltInRules() {
  static const Rules rules = Load();
  return rules;
}

}  // namespace msprobe::analysis::config_check
