#include "src/naming/rules.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::resources {
extern const std::string_view kCkptMapping;
}

namespace msprobe::naming {
namespace {

// Placeholders of one name, which has a few: each is looked for among the others.
constexpr size_t kMostPlaceholders = 64;

const std::string_view* Bound(const Bindings& bindings, std::string_view placeholder) {
  const auto found =
      std::find_if(bindings.begin(), bindings.end(),
                   [placeholder](const auto& binding) { return binding.first == placeholder; });
  return found == bindings.end() ? nullptr : &found->second;
}

bool IsPlaceholderName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

Result<NamePattern> NamePattern::Parse(std::string text) {
  NamePattern pattern;
  pattern.text_ = std::move(text);
  const std::string_view all = pattern.text_;
  if (all.empty()) {
    return UsageError("a name must not be empty");
  }
  size_t at = 0;
  size_t placeholders = 0;
  while (at < all.size()) {
    if (all[at] != '{') {
      const size_t end = std::min(all.find('{', at), all.size());
      if (all.substr(at, end - at).find('}') != std::string_view::npos) {
        return UsageError(fmt::format("\"{}\": a '}}' without its '{{'", all));
      }
      pattern.tokens_.push_back({at, end - at});
      at = end;
      continue;
    }
    const size_t close = all.find('}', at);
    if (close == std::string_view::npos) {
      return UsageError(fmt::format("\"{}\": a '{{' without its '}}'", all));
    }
    Token token{at + 1, close - at - 1, true, false};
    if (token.size > 0 && all[close - 1] == '*') {
      token.spans_dots = true;
      --token.size;
    }
    if (!IsPlaceholderName(pattern.Text(token))) {
      return UsageError(
          fmt::format("\"{}\": a placeholder is a word in braces such as {{n}}, or {{path*}} for "
                      "text with dots",
                      all));
    }
    if (!pattern.tokens_.empty() && pattern.tokens_.back().placeholder) {
      return UsageError(fmt::format("\"{}\": two placeholders need some text between them", all));
    }
    if (++placeholders > kMostPlaceholders) {
      return UsageError(
          fmt::format("\"{}\": more than {} placeholders", all.substr(0, 200), kMostPlaceholders));
    }
    pattern.tokens_.push_back(token);
    at = close + 1;
  }
  return pattern;
}

bool NamePattern::Match(std::string_view name, Bindings& bindings) const {
  bindings.clear();
  size_t at = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (!token.placeholder) {
      if (name.substr(at, token.size) != Text(token)) {
        return false;
      }
      at += token.size;
      continue;
    }
    size_t end = name.size();
    if (const std::string_view* known = Bound(bindings, Text(token))) {
      if (name.substr(at, known->size()) != *known) {
        return false;
      }
      at += known->size();
      continue;
    }
    if (i + 1 < tokens_.size()) {
      const std::string_view next = Text(tokens_[i + 1]);
      if (i + 2 == tokens_.size()) {
        // The last literal ends the name, so that "{path*}.gamma" fits "a.gamma.b.gamma".
        if (!name.ends_with(next) || name.size() < at + next.size()) {
          return false;
        }
        end = name.size() - next.size();
      } else {
        end = at < name.size() ? name.find(next, at + 1) : std::string_view::npos;
      }
    }
    if (end == std::string_view::npos || end <= at) {
      return false;
    }
    const std::string_view value = name.substr(at, end - at);
    if (!token.spans_dots && value.find('.') != std::string_view::npos) {
      return false;
    }
    bindings.emplace_back(Text(token), value);
    at = end;
  }
  return at == name.size();
}

std::string NamePattern::Format(const Bindings& bindings) const {
  std::string name;
  for (const Token& token : tokens_) {
    if (!token.placeholder) {
      name += Text(token);
    } else if (const std::string_view* value = Bound(bindings, Text(token))) {
      name += *value;
    }
  }
  return name;
}

size_t NamePattern::FormattedBytes(const Bindings& bindings) const {
  size_t bytes = 0;
  for (const Token& token : tokens_) {
    const std::string_view* value = token.placeholder ? Bound(bindings, Text(token)) : nullptr;
    bytes += !token.placeholder ? token.size : value != nullptr ? value->size() : 0;
  }
  return bytes;
}

std::vector<std::string> NamePattern::Placeholders() const {
  std::vector<std::string> names;
  for (const Token& token : tokens_) {
    if (token.placeholder) {
      names.emplace_back(Text(token));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

namespace {

using json::Config;
using json::Json;

const std::vector<std::string>& RuleKeys() {
  static const std::vector<std::string> keys = {"from",  "to",    "axis", "transpose", "layout",
                                                "sizes", "gated", "side", "ignore",    "reason"};
  return keys;
}

struct LayoutWord {
  std::string_view word;
  Arrangement arrangement;
  Proportion proportion;
};
constexpr LayoutWord kLayouts[] = {
    {"parts", Arrangement::kOneAfterAnother, Proportion::kSizes},
    {"query_key_value", Arrangement::kOneAfterAnother, Proportion::kQueryKeyValue},
    {"query_groups", Arrangement::kQueryGroups, Proportion::kQueryKeyValue},
};

struct SideWord {
  std::string_view word;
  RuleSide side;
};
constexpr SideWord kSides[] = {
    {"both", RuleSide::kBoth}, {"first", RuleSide::kFirst}, {"second", RuleSide::kSecond}};

template <typename Words>
std::string ValidWords(const Words& words) {
  std::vector<std::string> all;
  for (const auto& entry : words) {
    all.emplace_back(entry.word);
  }
  return base::Join(all, ", ");
}

Result<NamePattern> ReadPattern(const Config& config, const Json& value, std::string_view key) {
  if (!value.is_string()) {
    return config.ErrorAt(value, key, fmt::format("must be a name, not {}", json::KindName(value)));
  }
  Result<NamePattern> pattern = NamePattern::Parse(json::TextOf(value));
  if (!pattern.ok()) {
    return config.ErrorAt(value, key, pattern.status().message());
  }
  return pattern;
}

// One name or a list of names.
Result<std::vector<NamePattern>> ReadPatterns(const Config& config, const Json& object,
                                              std::string_view key) {
  const Json* value = json::Find(object, key);
  if (value == nullptr) {
    return config.ErrorAt(object, key, "is missing");
  }
  std::vector<NamePattern> patterns;
  if (!value->is_array()) {
    MSP_ASSIGN_OR_RETURN(NamePattern pattern, ReadPattern(config, *value, key));
    patterns.push_back(std::move(pattern));
    return patterns;
  }
  for (const Json& item : *value) {
    MSP_ASSIGN_OR_RETURN(NamePattern pattern, ReadPattern(config, item, key));
    patterns.push_back(std::move(pattern));
  }
  if (patterns.empty()) {
    return config.ErrorAt(*value, key, "must hold at least one name");
  }
  return patterns;
}

// Every pattern must bind what the others need, so that a rule can be read both ways.
Status CheckPlaceholders(const Config& config, const Json& object, const Rule& rule) {
  const std::vector<std::string> wanted = rule.from.front().Placeholders();
  const auto check = [&](std::span<const NamePattern> patterns, std::string_view key) -> Status {
    for (const NamePattern& pattern : patterns) {
      if (pattern.Placeholders() != wanted) {
        return config.ErrorAt(object, key,
                              fmt::format("\"{}\" must have the same placeholders as \"{}\"",
                                          pattern.text(), rule.from.front().text()));
      }
    }
    return {};
  };
  MSP_RETURN_IF_ERROR(check(rule.from, "from"));
  return check(rule.to, "to");
}

Status ReadLayout(const Config& config, const Json& object, Rule& rule) {
  const size_t parts = std::max(rule.from.size(), rule.to.size());
  MSP_ASSIGN_OR_RETURN(const std::string layout, config.Text(object, "layout", "parts"));
  const auto* known = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                   [&](const LayoutWord& word) { return word.word == layout; });
  if (known == std::end(kLayouts)) {
    return config.ErrorAt(*json::Find(object, "layout"), "layout",
                          fmt::format("must be one of {}", ValidWords(kLayouts)));
  }
  rule.arrangement = known->arrangement;
  rule.proportion = known->proportion;
  if (rule.proportion == Proportion::kQueryKeyValue && parts != 3) {
    return config.ErrorAt(*json::Find(object, "layout"), "layout",
                          fmt::format("{} needs three parts: query, key, value", layout));
  }
  MSP_ASSIGN_OR_RETURN(rule.sizes, config.IntList(object, "sizes"));
  const bool positive = std::all_of(rule.sizes.begin(), rule.sizes.end(),
                                    [](int64_t size) { return size > 0 && size <= INT32_MAX; });
  if (!rule.sizes.empty() &&
      (!positive || rule.sizes.size() != parts || rule.proportion != Proportion::kSizes)) {
    return config.ErrorAt(
        *json::Find(object, "sizes"), "sizes",
        fmt::format("must be {} relative lengths above 0, one for each part, with layout parts",
                    parts));
  }
  return {};
}

Result<Rule> ReadRule(const Config& config, const Json& object) {
  Rule rule;
  rule.line = config.LineOf(object);
  MSP_ASSIGN_OR_RETURN(rule.from, ReadPatterns(config, object, "from"));
  MSP_ASSIGN_OR_RETURN(rule.to, ReadPatterns(config, object, "to"));
  if (rule.from.size() > 1 && rule.to.size() > 1) {
    return config.ErrorAt(object, "to", "either `from` or `to` may be a list, not both");
  }
  MSP_RETURN_IF_ERROR(CheckPlaceholders(config, object, rule));
  MSP_RETURN_IF_ERROR(ReadLayout(config, object, rule));
  MSP_ASSIGN_OR_RETURN(rule.transpose, config.Bool(object, "transpose", false));
  if (const Json* gated = json::Find(object, "gated")) {
    MSP_ASSIGN_OR_RETURN(rule.gated, config.Bool(object, "gated", false));
    if (gated->is_null()) {
      rule.gated.reset();
    }
  }
  if (const Json* axis = json::Find(object, "axis")) {
    if (!axis->is_number_integer() || json::IntOf(*axis) < 0 || json::IntOf(*axis) > 63) {
      return config.ErrorAt(*axis, "axis", "must be the number of an axis, 0 being the first");
    }
    rule.axis = static_cast<size_t>(json::IntOf(*axis));
  }
  MSP_ASSIGN_OR_RETURN(const std::string side, config.Text(object, "side", "both"));
  const auto* known = std::find_if(std::begin(kSides), std::end(kSides),
                                   [&](const SideWord& word) { return word.word == side; });
  if (known == std::end(kSides)) {
    return config.ErrorAt(*json::Find(object, "side"), "side",
                          fmt::format("must be one of {}", ValidWords(kSides)));
  }
  rule.side = known->side;
  return rule;
}

Status ReadRuleList(const Config& config, const Json& list, RuleSet& set) {
  if (!list.is_array()) {
    return config.ErrorAt(list, "",
                          "a mapping is a list of rules such as \"- {from: old.name, to: "
                          "new.name}\"");
  }
  for (const Json& object : list) {
    if (!object.is_object()) {
      return config.ErrorAt(object, "", "a rule is an object with the keys from and to, or ignore");
    }
    MSP_RETURN_IF_ERROR(config.CheckKeys(object, RuleKeys()));
    const Json* ignored = json::Find(object, "ignore");
    if (ignored == nullptr) {
      MSP_ASSIGN_OR_RETURN(Rule rule, ReadRule(config, object));
      set.rules.push_back(std::move(rule));
      continue;
    }
    if (json::Find(object, "from") != nullptr || json::Find(object, "to") != nullptr) {
      return config.ErrorAt(object, "ignore", "cannot be combined with from and to");
    }
    MSP_ASSIGN_OR_RETURN(NamePattern name, ReadPattern(config, *ignored, "ignore"));
    MSP_ASSIGN_OR_RETURN(
        std::string reason,
        config.Text(object, "reason",
                    fmt::format("left out by {} line {}", config.file, config.LineOf(object))));
    set.ignored.push_back({std::move(name), std::move(reason)});
  }
  return {};
}

Result<RuleSet> ReadRules(const Config& config) {
  RuleSet set;
  set.source = config.file;
  if (!config.root().is_null()) {
    MSP_RETURN_IF_ERROR(ReadRuleList(config, config.root(), set));
  }
  return set;
}

Status ReadMemberRules(const Config& config, const Json& object, std::string_view key,
                       RuleSet& set) {
  set.source = config.file;
  const Json* list = json::Find(object, key);
  return list == nullptr ? config.ErrorAt(object, key, "is missing")
                         : ReadRuleList(config, *list, set);
}

}  // namespace

Result<RuleSet> LoadRules(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const Config config, json::LoadYamlConfig(file));
  return ReadRules(config);
}

Result<RuleSet> ParseRules(std::string_view yaml, std::string file_name) {
  MSP_ASSIGN_OR_RETURN(const Config config, json::ParseYamlConfig(yaml, std::move(file_name)));
  return ReadRules(config);
}

Result<BuiltInMapping> LoadBuiltInMapping() {
  MSP_ASSIGN_OR_RETURN(const Config config,
                       json::ParseYamlConfig(resources::kCkptMapping, "built-in name mapping"));
  BuiltInMapping mapping;
  MSP_ASSIGN_OR_RETURN(mapping.wrappers, config.TextList(config.root(), "wrappers"));
  MSP_ASSIGN_OR_RETURN(mapping.prefixes, config.TextList(config.root(), "prefixes"));
  MSP_ASSIGN_OR_RETURN(mapping.vocabulary, config.TextList(config.root(), "vocabulary"));
  MSP_ASSIGN_OR_RETURN(mapping.embedding, config.RequiredText(config.root(), "embedding"));
  MSP_ASSIGN_OR_RETURN(mapping.output_layer, config.RequiredText(config.root(), "output_layer"));
  MSP_RETURN_IF_ERROR(ReadMemberRules(config, config.root(), "spellings", mapping.spellings));
  const Json* dialects = json::Find(config.root(), "dialects");
  if (dialects == nullptr) {
    return config.ErrorAt(config.root(), "dialects", "is missing");
  }
  for (const Json& object : *dialects) {
    Dialect dialect;
    MSP_ASSIGN_OR_RETURN(dialect.name, config.RequiredText(object, "name"));
    if (const Json* conv1d = json::Find(object, "conv1d")) {
      MSP_ASSIGN_OR_RETURN(dialect.conv1d, ReadPattern(config, *conv1d, "conv1d"));
    }
    MSP_RETURN_IF_ERROR(ReadMemberRules(config, object, "rules", dialect.set));
    mapping.dialects.push_back(std::move(dialect));
  }
  return mapping;
}

}  // namespace msprobe::naming
