#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "src/analysis/compare/mapping_rules.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::resources {
extern const std::string_view kMsToPtApi;
}

namespace msprobe::analysis::compare {
namespace {

// Appended to the keys of rows that a user's API mapping leaves out on purpose: no bench row has
// such a name.
constexpr std::string_view kAbandoned = "abandoned";

// "Functional.abs" of "Functional.abs.0.forward.input.0"; empty when there are fewer parts.
std::string_view ApiOf(std::string_view name) {
  const size_t first = name.find('.');
  if (first == std::string_view::npos) {
    return {};
  }
  return name.substr(0, name.find('.', first + 1));
}

Result<TextMap> ParseBuiltInApis() {
  MSP_ASSIGN_OR_RETURN(const json::Config config,
                       json::ParseJsonConfig(resources::kMsToPtApi, "built-in API table"));
  TextMap table;
  table.reserve(config.root.members.size());
  for (const auto& [mindspore, pytorch] : config.root.members) {
    table.emplace(mindspore, pytorch.text);
  }
  return table;
}

// Parsed once: every rank of a comparison asks for it.
const Result<TextMap>& BuiltInApis() {
  static const Result<TextMap> table = ParseBuiltInApis();
  return table;
}

std::string_view BuiltInKey(const TextMap& table, std::string_view name, RowMapping& mapping) {
  if (name.starts_with("Mint.")) {
    return mapping.arena->Keep(base::ReplaceAll(name, "Mint", "Torch"));
  }
  if (name.starts_with("MintFunctional.")) {
    return mapping.arena->Keep(base::ReplaceAll(name, "MintFunctional", "Functional"));
  }
  const std::string_view api = ApiOf(name);
  const auto target = table.find(api);
  if (api.empty() || target == table.end()) {
    return name;
  }
  std::string key = target->second;
  key += name.substr(api.size());
  return mapping.arena->Keep(key);
}

// Which lists of an object belong to which part of a row's name.
struct PartLists {
  std::string_view ms_key;
  std::string_view pt_key;
  std::string_view
      ms_other_spelling;  // outputs: the reference reads one key and documents the other
  std::string_view pt_other_spelling;
};
enum Part : uint8_t { kArguments, kOutputs, kParameters, kGradients };
constexpr std::array<PartLists, 4> kParts = {{
    {"ms_args", "pt_args", "", ""},
    {"ms_outputs", "pt_outputs", "ms_output", "pt_output"},
    {"ms_parameters", "pt_parameters", "", ""},
    {"ms_parameters_grad", "pt_parameters_grad", "", ""},
}};

struct RowPattern {
  std::string_view text;
  Part part;
};
constexpr std::array<RowPattern, 5> kRowPatterns = {{
    {".input.", kArguments},
    {".kwargs.", kArguments},
    {".output.", kOutputs},
    {".parameters.", kParameters},
    {".parameters_grad.", kGradients},
}};

struct ApiRule {
  std::string ms_api;
  std::string pt_api;
  std::array<std::vector<std::pair<std::string, std::string>>, kParts.size()> positions;
};

Result<std::vector<std::string>> PositionList(const json::Config& config,
                                              const json::ConfigValue& object, std::string_view key,
                                              std::string_view other) {
  const json::ConfigValue* list = object.Find(key);
  if (list == nullptr && !other.empty()) {
    list = object.Find(other);
  }
  std::vector<std::string> positions;
  if (list == nullptr || list->kind == json::ConfigKind::kNull) {
    return positions;
  }
  if (list->kind != json::ConfigKind::kList) {
    return config.ErrorAt(*list, key, "must be a list of positions or argument names");
  }
  for (const json::ConfigValue& item : list->items) {
    if (item.kind != json::ConfigKind::kInt && item.kind != json::ConfigKind::kText) {
      return config.ErrorAt(item, key, "must hold positions or argument names only");
    }
    positions.push_back(item.text.empty() ? std::to_string(item.integer) : item.text);
  }
  return positions;
}

// nullopt: the object contradicts itself; a warning was added.
Result<std::optional<ApiRule>> ReadRule(const json::Config& config, const json::ConfigValue& object,
                                        std::vector<std::string>& warnings) {
  if (object.kind != json::ConfigKind::kObject) {
    return config.ErrorAt(object, "", "each item must be an object with ms_api and pt_api");
  }
  ApiRule rule;
  MSP_ASSIGN_OR_RETURN(rule.ms_api, config.RequiredText(object, "ms_api"));
  MSP_ASSIGN_OR_RETURN(rule.pt_api, config.RequiredText(object, "pt_api"));
  for (size_t part = 0; part < kParts.size(); ++part) {
    const PartLists& lists = kParts[part];
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> ms,
                         PositionList(config, object, lists.ms_key, lists.ms_other_spelling));
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> pt,
                         PositionList(config, object, lists.pt_key, lists.pt_other_spelling));
    if (ms.size() != pt.size()) {
      warnings.push_back(config.file + " line " + std::to_string(object.line) + ": " + rule.ms_api +
                         ": " + std::string(lists.ms_key) + " and " + std::string(lists.pt_key) +
                         " differ in length; the whole item is left out");
      return std::optional<ApiRule>();
    }
    for (size_t i = 0; i < ms.size(); ++i) {
      rule.positions[part].emplace_back(ms[i], pt[i]);
    }
  }
  return std::optional<ApiRule>(std::move(rule));
}

Result<std::vector<ApiRule>> LoadRules(const std::filesystem::path& file,
                                       std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  std::vector<ApiRule> rules;
  if (config.root.kind == json::ConfigKind::kNull) {
    return rules;
  }
  if (config.root.kind != json::ConfigKind::kList) {
    return config.ErrorAt(config.root, "", "an API mapping is a list of objects");
  }
  for (const json::ConfigValue& object : config.root.items) {
    MSP_ASSIGN_OR_RETURN(std::optional<ApiRule> rule, ReadRule(config, object, warnings));
    if (rule) {
      rules.push_back(std::move(*rule));
    }
  }
  return rules;
}

// Calls visit(prefix) for "a", "a.b", "a.b.c", ... until it returns true; the name itself is no
// prefix.
template <typename Visit>
void ForEachDottedPrefix(std::string_view name, Visit&& visit) {
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (visit(name.substr(0, dot))) {
      return;
    }
  }
}

// Those of `wanted` that some entry of the side belongs to.
std::unordered_set<std::string_view> ApisPresent(
    const Side& side, const std::unordered_set<std::string_view>& wanted) {
  std::unordered_set<std::string_view> present;
  for (const SideRow& row : side.rows) {
    ForEachDottedPrefix(row.name, [&](std::string_view prefix) {
      if (const auto found = wanted.find(prefix); found != wanted.end()) {
        present.insert(*found);
      }
      return false;
    });
  }
  return present;
}

// Length of the first segment(s) of `text` that equal `position`, or 0: position "1" fits "1" and
// "1.k", never "10".
bool StartsWithPosition(std::string_view text, std::string_view position) {
  return text.starts_with(position) &&
         (text.size() == position.size() || text[position.size()] == '.');
}

std::string KeyByRule(const ApiRule& rule, const SideRow& row) {
  // The part behind the call's own name: an argument may be called "output" and a module path may
  // contain ".input.".
  const std::string_view call =
      row.name.starts_with(row.api_name) ? row.api_name : std::string_view();
  const size_t search_from = call.empty() ? 0 : call.size() - 1;
  std::string key = rule.pt_api;
  for (const RowPattern& pattern : kRowPatterns) {
    const size_t at = row.name.find(pattern.text, search_from);
    const bool fits = at != std::string_view::npos && (call.empty() || at == search_from);
    if (!fits || at < rule.ms_api.size()) {
      continue;
    }
    const size_t position_at = at + pattern.text.size();
    const std::string_view position = row.name.substr(position_at);
    const std::string* target = nullptr;
    size_t matched = 0;
    for (const auto& [ms, pt] : rule.positions[pattern.part]) {
      if (StartsWithPosition(position, ms)) {
        target = &pt;
        matched = ms.size();
      }
    }
    if (target != nullptr) {
      key += row.name.substr(rule.ms_api.size(), position_at - rule.ms_api.size());
      key += *target;
      key += position.substr(matched);
      return key;
    }
    break;
  }
  key += row.name.substr(rule.ms_api.size());
  key += kAbandoned;
  return key;
}

// The rules whose APIs both dumps hold, by MindSpore name; of two rules for one name the later one
// counts.
std::unordered_map<std::string_view, const ApiRule*> RulesInUse(const std::vector<ApiRule>& rules,
                                                                const Side& npu,
                                                                const Side& bench) {
  std::unordered_set<std::string_view> ms_names;
  std::unordered_set<std::string_view> pt_names;
  for (const ApiRule& rule : rules) {
    ms_names.insert(rule.ms_api);
    pt_names.insert(rule.pt_api);
  }
  const auto ms_present = ApisPresent(npu, ms_names);
  const auto pt_present = ApisPresent(bench, pt_names);
  std::unordered_map<std::string_view, const ApiRule*> in_use;
  for (const ApiRule& rule : rules) {
    if (ms_present.contains(rule.ms_api) && pt_present.contains(rule.pt_api)) {
      in_use[rule.ms_api] = &rule;
    }
  }
  return in_use;
}

}  // namespace

Status MapRowsByApi(const std::filesystem::path& file, const Side& npu, const Side& bench,
                    RowMapping& mapping) {
  const Result<TextMap>& table = BuiltInApis();
  MSP_RETURN_IF_ERROR(table.status());
  std::vector<ApiRule> rules;
  if (!file.empty()) {
    MSP_ASSIGN_OR_RETURN(rules, LoadRules(file, mapping.warnings));
  }
  const auto in_use = RulesInUse(rules, npu, bench);
  mapping.keys.clear();
  for (const SideRow& row : npu.rows) {
    const ApiRule* rule = nullptr;
    if (!in_use.empty()) {
      ForEachDottedPrefix(row.name, [&](std::string_view prefix) {
        const auto found = in_use.find(prefix);
        rule = found == in_use.end() ? nullptr : found->second;
        return rule != nullptr;
      });
    }
    mapping.keys.push_back(rule == nullptr ? BuiltInKey(*table, row.name, mapping)
                                           : mapping.arena->Keep(KeyByRule(*rule, row)));
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
