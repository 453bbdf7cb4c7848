#include "src/analysis/config_check/rules.h"

#include <algorithm>
#include <cassert>

#include "src/base/strings.h"
#include "src/report/advice.h"

namespace msprobe::resources {
extern const std::string_view kConfigCheckRules;
}

namespace msprobe::analysis::config_check {
namespace {

using json::ValueKind;
using json::ValueTree;

std::string TextOf(const ValueTree& tree, uint32_t object, std::string_view key) {
  const uint32_t node = tree.Find(object, key);
  return node == ValueTree::kNone ? std::string() : std::string(tree[node].text);
}

std::vector<std::string> TextsOf(const ValueTree& tree, uint32_t list) {
  std::vector<std::string> texts;
  tree.ForEachChild(list, [&](uint32_t child) { texts.emplace_back(tree[child].text); });
  return texts;
}

VariableOnDevice DeviceOf(const ValueTree& tree, uint32_t variable, std::string_view device) {
  const uint32_t node = tree.Find(variable, device);
  if (tree[node].kind != ValueKind::kObject) {
    return {};
  }
  return {TextOf(tree, node, "name"), tree.Find(node, "default")};
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
  Result<ValueTree> parsed = json::ParseValueTree(resources::kConfigCheckRules);
  assert(parsed.ok());
  Rules rules;
  rules.tree = *std::move(parsed);
  const ValueTree& tree = rules.tree;
  tree.ForEachChild(tree.Find(0, "variables"), [&](uint32_t node) {
    rules.variables.push_back({DeviceOf(tree, node, "npu"), DeviceOf(tree, node, "gpu"),
                               report::AdviceText(TextOf(tree, node, "why")),
                               report::AdviceText(TextOf(tree, node, "fix"))});
  });
  tree.ForEachChild(tree.Find(0, "further_variables"), [&](uint32_t node) {
    rules.further_variables.push_back(
        {TextOf(tree, node, "name"), TextOf(tree, node, "device"), TextOf(tree, node, "why")});
  });
  rules.local_variables = TextsOf(tree, tree.Find(0, "local_variables"));
  rules.packages = TextsOf(tree, tree.Find(0, "packages"));
  tree.ForEachChild(tree.Find(0, "further_packages"), [&](uint32_t node) {
    rules.further_packages.push_back(
        {TextOf(tree, node, "name"), TextOf(tree, node, "one_side") == "error"});
  });
  tree.ForEachChild(tree.Find(0, "aliases"), [&](uint32_t node) {
    rules.aliases.emplace_back(std::string(tree[node].key), TextsOf(tree, node));
  });
  tree.ForEachChild(tree.Find(0, "checks"), [&](uint32_t node) {
    rules.checks.emplace_back(std::string(tree[node].key),
                              Remedy{report::AdviceText(TextOf(tree, node, "why")),
                                     report::AdviceText(TextOf(tree, node, "fix"))});
  });
  tree.ForEachChild(tree.Find(0, "topics"), [&](uint32_t node) {
    rules.topics.push_back({TextsOf(tree, tree.Find(node, "names")), TextOf(tree, node, "why")});
  });
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
