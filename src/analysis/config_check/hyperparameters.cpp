#include "src/analysis/config_check/hyperparameters.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/document.h"
#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using json::ConfigKind;
using json::ConfigValue;
using json::ValueKind;
using json::ValueNode;
using json::ValueTree;

constexpr uint64_t kLimitBytes = uint64_t{64} << 20U;

// Nested as deep as the parser allows.
ConfigValue ConfigValueOf(const ValueTree& tree, uint32_t index) {
  const ValueNode& node = tree[index];
  ConfigValue value;
  switch (node.kind) {
    case ValueKind::kNull:
      break;
    case ValueKind::kBool:
      value.kind = ConfigKind::kBool;
      value.boolean = node.boolean;
      break;
    case ValueKind::kInt:
      value.kind = ConfigKind::kInt;
      value.integer = node.integer;
      value.number = node.number;
      break;
    case ValueKind::kFloat:
      value.kind = ConfigKind::kFloat;
      value.number = node.number;
      value.text = node.text;
      break;
    case ValueKind::kText:
      value = TextParameter(std::string(node.text));
      break;
    case ValueKind::kList:
      value.kind = ConfigKind::kList;
      tree.ForEachChild(index,
                        [&](uint32_t child) { value.items.push_back(ConfigValueOf(tree, child)); });
      break;
    case ValueKind::kObject:
      value.kind = ConfigKind::kObject;
      tree.ForEachChild(index, [&](uint32_t child) {
        value.members.emplace_back(std::string(tree[child].key), ConfigValueOf(tree, child));
      });
      break;
  }
  return value;
}

}  // namespace

Result<std::string> ReadDynamicParameters(const std::filesystem::path& path, size_t* masked) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLimitBytes));
  MSP_ASSIGN_OR_RETURN(const ValueTree tree, json::ParseValueTree(text), path.string());
  if (tree[0].kind != ValueKind::kObject) {
    return BadFormatError(fmt::format("{}: parameters are one JSON object", path.string()));
  }
  return WriteMasked(ConfigValueOf(tree, 0), masked);
}

namespace {

// The depth of a config is limited where it is read, so recursion is, too.
class Flattener {
 public:
  Flattener(bool compat, size_t bytes) : compat_(compat), names_(bytes) {}

  // Takes what is kept out of `value`: a list may be large.
  Status Walk(const std::string& name, ConfigValue& value, bool top) {
    MSP_RETURN_IF_ERROR(names_.Take(name));
    if (value.kind == ConfigKind::kObject && (compat_ || top || !value.members.empty())) {
      for (auto& [key, member] : value.members) {
        if (compat_ && !top && member.key_kind != ConfigKind::kText) {
          return BadFormatError(
              fmt::format("line {}: the key {} is not a string", member.line, key));
        }
        MSP_RETURN_IF_ERROR(Walk(
            name.empty() ? KeyText(key, member) : fmt::format("{}.{}", name, key), member, false));
      }
      return {};
    }
    if (compat_ && value.kind == ConfigKind::kList) {
      for (ConfigValue& item : value.items) {
        MSP_RETURN_IF_ERROR(Walk(name, item, false));
      }
      return {};
    }
    if (!compat_ || IsKept(value)) {
      parameters_.Set(name, std::move(value));
    }
    return {};
  }

  Parameters& parameters() { return parameters_; }

 private:
  static bool IsKept(const ConfigValue& value) {
    const bool whole_number = value.kind == ConfigKind::kFloat && !value.text.empty() &&
                              value.text.find_first_not_of("+-_0123456789") == std::string::npos;
    return value.kind == ConfigKind::kInt || value.kind == ConfigKind::kBool || whole_number ||
           (value.kind == ConfigKind::kText && !value.is_typed_text);
  }

  // Keys that are not text are spelled as JSON spells them.
  std::string KeyText(const std::string& key, const ConfigValue& member) const {
    if (!compat_ || member.key_kind == ConfigKind::kText) {
      return key;
    }
    if (member.key_kind == ConfigKind::kBool) {
      const char second = static_cast<char>(key.size() > 1 ? key[1] | 0x20 : '\0');
      return key[0] == 't' || key[0] == 'T' || key[0] == 'y' || key[0] == 'Y' || second == 'n'
                 ? "true"
                 : "false";
    }
    return key;
  }

  const bool compat_;
  NameBudget names_;
  Parameters parameters_;
};

}  // namespace

Result<Parameters> FlattenConfig(ConfigValue root, size_t bytes, bool compat) {
  Flattener flattener(compat, bytes);
  if (root.kind != ConfigKind::kNull) {
    MSP_RETURN_IF_ERROR(flattener.Walk({}, root, true));
  }
  return std::move(flattener.parameters());
}

namespace {

constexpr uint64_t kScriptLimitBytes = uint64_t{1} << 20U;
constexpr uint64_t kConfigLimitBytes = uint64_t{64} << 20U;
constexpr std::array<std::string_view, 5> kScriptSuffixes = {".sh", ".bash", ".slurm", ".sbatch",
                                                             ".zsh"};
constexpr int kIndent = 4;
// Blanks that a file's values are written with, in addition to its size: a hundred levels make four
// hundred of them for each value.
constexpr uint64_t kMostBlanks = uint64_t{64} << 20U;
constexpr size_t kMostWarnings = 20;  // of one script: a line each may be wrong in the same way

enum class FileKind { kScript, kYaml, kJson, kUnknown };

FileKind KindByName(std::string_view name) {
  if (std::any_of(kScriptSuffixes.begin(), kScriptSuffixes.end(),
                  [name](std::string_view suffix) { return name.ends_with(suffix); })) {
    return FileKind::kScript;
  }
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    return FileKind::kYaml;
  }
  return name.ends_with(".json") ? FileKind::kJson : FileKind::kUnknown;
}

// "#!/usr/bin/env bash"
bool BeginsAsScript(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return first.starts_with("#!") && base::Trim(first).ends_with("sh");
}

// As editors on other systems leave it: a byte order mark, carriage returns.
std::string Normalized(std::string_view text) {
  if (text.starts_with(base::kByteOrderMark)) {
    text.remove_prefix(3);
  }
  return base::ReplaceAll(text, "\r\n", "\n");
}

bool IsNumeric(const ConfigValue& value) {
  return value.kind == ConfigKind::kBool || value.kind == ConfigKind::kInt ||
         value.kind == ConfigKind::kFloat;
}

double NumberOfConfig(const ConfigValue& value) {
  return value.kind == ConfigKind::kBool ? (value.boolean ? 1 : 0) : value.number;
}

// What a value at this level is indented by when it is written, with all in it.
uint64_t BlanksOf(const ConfigValue& value, uint64_t level) {
  uint64_t blanks = uint64_t{kIndent} * level;
  for (const ConfigValue& item : value.items) {
    blanks += BlanksOf(item, level + 1);
  }
  for (const auto& member : value.members) {
    blanks += BlanksOf(member.second, level + 1);
  }
  return blanks;
}

}  // namespace

bool EqualValues(const ConfigValue& left, const ConfigValue& right) {
  if (IsNumeric(left) && IsNumeric(right)) {
    return left.kind == ConfigKind::kInt && right.kind == ConfigKind::kInt
               ? left.integer == right.integer
               : NumberOfConfig(left) == NumberOfConfig(right);
  }
  if (left.kind != right.kind || left.text != right.text ||
      left.items.size() != right.items.size() || left.members.size() != right.members.size()) {
    return false;
  }
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (!EqualValues(left.items[i], right.items[i])) {
      return false;
    }
  }
  // By name, made where the order differs first: an object may have very many members.
  std::unordered_map<std::string_view, const ConfigValue*> others;
  for (size_t i = 0; i < left.members.size(); ++i) {
    const auto& [name, value] = left.members[i];
    if (others.empty() && right.members[i].first == name) {
      if (!EqualValues(value, right.members[i].second)) {
        return false;
      }
      continue;
    }
    if (others.empty()) {
      for (const auto& [other_name, other] : right.members) {
        others.emplace(other_name, &other);
      }
    }
    const auto other = others.find(name);
    if (other == others.end() || !EqualValues(value, *other->second)) {
      return false;
    }
  }
  return true;
}

Result<Parameters> HyperparameterReader::Parse(std::string_view name, std::string_view text) {
  FileKind kind = KindByName(name);
  if (kind == FileKind::kUnknown && BeginsAsScript(text)) {
    kind = FileKind::kScript;
  }
  if (kind == FileKind::kScript && compat_) {
    return ReadLaunchScriptAsPythonTool(text);
  }
  if (kind == FileKind::kScript) {
    MSP_ASSIGN_OR_RETURN(
        LaunchScript script,
        ReadLaunchScript(Normalized(text), [this](std::string_view other) { return Find(other); }),
        name);
    Merge(name, std::move(script.environment));
    const size_t told = std::min(script.warnings.size(), kMostWarnings);
    for (size_t i = 0; i < told; ++i) {
      warnings_.push_back(fmt::format("{}: {}", name, script.warnings[i]));
    }
    if (told < script.warnings.size()) {
      warnings_.push_back(
          fmt::format("{}: {} more like these", name, script.warnings.size() - told));
    }
    return std::move(script.parameters);
  }
  if (kind == FileKind::kUnknown) {
    return UnsupportedError(fmt::format("{}: neither a launch script nor a config", name))
        .WithHint("name files .sh, .yaml, .yml or .json; scripts may begin with #!/bin/bash");
  }
  MSP_ASSIGN_OR_RETURN(json::Config config, kind == FileKind::kYaml
                                                ? json::ParseYamlData(text, std::string(name))
                                                : json::ParseJsonData(text, std::string(name)));
  MSP_ASSIGN_OR_RETURN(Parameters parameters,
                       FlattenConfig(std::move(config.root), text.size(), compat_), name);
  uint64_t blanks = 0;
  for (const auto& member : parameters.object().members) {
    blanks += BlanksOf(member.second, 1);
  }
  if (blanks > kMostBlanks + text.size()) {
    return UnsupportedError(
               fmt::format("{}: its lists are nested so deeply that {} bytes of blanks would stand "
                           "in front of the values",
                           name, blanks))
        .WithHint("leave the file out");
  }
  if (!compat_ || kind != FileKind::kYaml) {
    return parameters;
  }
  for (const auto& [key, value] : parameters.object().members) {
    yaml_so_far_.Set(key, value);
  }
  return yaml_so_far_;
}

const std::string* HyperparameterReader::Find(std::string_view script) {
  if (const auto known = texts_.find(script); known != texts_.end()) {
    return &known->second;
  }
  const auto announced = announced_.find(script);
  if (announced == announced_.end()) {
    return nullptr;
  }
  Result<std::string> text = base::ReadTextFile(announced->second, kScriptLimitBytes);
  return text.ok() ? &texts_.emplace(announced->first, Normalized(*text)).first->second : nullptr;
}

void HyperparameterReader::Announce(const std::vector<std::filesystem::path>& paths) {
  if (compat_ || paths.size() < 2) {
    return;
  }
  for (const std::filesystem::path& path : paths) {
    if (KindByName(path.string()) == FileKind::kScript) {
      announced_.emplace(path.filename().string(), path);
    }
  }
  for (const auto& [name, path] : announced_) {
    const std::string* text = announced_.size() > 1 ? Find(name) : nullptr;
    if (text == nullptr) {
      continue;
    }
    const Result<LaunchScript> script =
        ReadLaunchScript(*text, [this](std::string_view other) { return Find(other); });
    if (script.ok()) {
      for (const std::string& part : (*script).read_scripts) {
        if (part != name) {
          parts_.push_back(part);
        }
      }
    }
  }
}

bool HyperparameterReader::IsPartOfAnother(const std::filesystem::path& path) const {
  return base::IsOneOf(path.filename().string(), parts_);
}

void HyperparameterReader::Merge(std::string_view script, std::vector<LaunchVariable> variables) {
  for (LaunchVariable& variable : variables) {
    // Made of what only a running shell knows, paths mostly: what this process has says more,
    // unless somebody counts on it.
    if (!variable.is_known && !BuiltInRules().Compares(variable.name)) {
      continue;
    }
    std::string origin =
        fmt::format("{} line {}", script.substr(script.rfind('/') + 1), variable.line);
    const auto known =
        std::find_if(environment_.begin(), environment_.end(),
                     [&](const ScriptVariable& other) { return other.name == variable.name; });
    if (known == environment_.end()) {
      environment_.push_back({variable.name, std::move(variable.value), std::move(origin)});
    } else if (!EqualValues(known->value, variable.value)) {
      std::vector<ConfigValue> values;
      for (const ConfigValue* one : {&known->value, &variable.value}) {
        const std::vector<ConfigValue>* several = ValuesOf(*one);
        for (const ConfigValue& item : several != nullptr ? *several : std::vector{*one}) {
          if (std::none_of(values.begin(), values.end(),
                           [&](const ConfigValue& old) { return EqualValues(old, item); })) {
            values.push_back(item);
          }
        }
      }
      known->value = values.size() == 1 ? values[0] : OneOf(std::move(values));
      known->origin += ", " + origin;
    }
  }
}

void HyperparameterReader::Merge(Parameters parameters) {
  ConfigValue object = parameters.Take();
  for (auto& member : object.members) {
    // Not as bindings: clang 14 does not let a lambda see those.
    const std::string& name = member.first;
    ConfigValue& value = member.second;
    const ConfigValue* known = merged_.Find(name);
    if (known == nullptr) {
      merged_.Set(name, std::move(value));
      continue;
    }
    const std::vector<ConfigValue>* known_values = compat_ ? nullptr : ValuesOf(*known);
    const std::vector<ConfigValue>* new_values = compat_ ? nullptr : ValuesOf(value);
    std::vector<ConfigValue> values =
        known_values != nullptr ? *known_values : std::vector<ConfigValue>{*known};
    const size_t before = values.size();
    const auto add = [&](const ConfigValue& item) {
      if (std::none_of(values.begin(), values.end(),
                       [&](const ConfigValue& old) { return EqualValues(old, item); })) {
        values.push_back(item);
      }
    };
    if (new_values == nullptr) {
      add(value);
    } else {
      std::for_each(new_values->begin(), new_values->end(), add);
    }
    if (values.size() > before) {
      merged_.Set(name, OneOf(std::move(values)));
    }
  }
}

Result<size_t> HyperparameterReader::AddText(std::string_view name, std::string_view text) {
  MSP_ASSIGN_OR_RETURN(Parameters parameters, Parse(name, text));
  const size_t count = parameters.size();
  Merge(std::move(parameters));
  return count;
}

Result<size_t> HyperparameterReader::Add(const std::filesystem::path& path) {
  if (IsPartOfAnother(path)) {
    return size_t{0};
  }
  const FileKind kind = KindByName(path.string());
  const bool is_config = kind == FileKind::kYaml || kind == FileKind::kJson;
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, is_config ? kConfigLimitBytes : kScriptLimitBytes));
  return AddText(path.string(), text);
}

std::string HyperparameterReader::Json(size_t* masked) const {
  return WriteMasked(merged_.object(), masked);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): what is masked is the copy
std::string WriteMasked(ConfigValue object, size_t* masked) {
  size_t count = 0;
  for (auto& [name, value] : object.members) {
    count += MaskParameter(name, value);
  }
  if (masked != nullptr) {
    *masked += count;
  }
  std::string text;
  json::Writer writer(text, kIndent);
  WriteParameter(object, writer);
  return text;
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {

// By its name or its first line; also one in Python, which is refused with the reason.
bool IsCollectable(const std::filesystem::path& path) {
  const std::string name = path.string();
  // A list of the parts of a checkpoint.
  if (name.ends_with(".index.json")) {
    return false;
  }
  if (internal::KindByName(name) != internal::FileKind::kUnknown || name.ends_with(".py")) {
    return true;
  }
  constexpr size_t kFirstLine = 100;
  return internal::BeginsAsScript(base::HeadOf(path, kFirstLine));
}

}  // namespace msprobe::analysis::config_check
