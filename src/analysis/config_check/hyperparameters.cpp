#include "src/analysis/config_check/hyperparameters.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/secrets.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using json::ConfigKind;
using json::ConfigValue;

constexpr uint64_t kScriptLimitBytes = uint64_t{1} << 20U;
constexpr uint64_t kConfigLimitBytes = uint64_t{64} << 20U;
constexpr std::array<std::string_view, 5> kScriptSuffixes = {".sh", ".bash", ".slurm", ".sbatch",
                                                             ".zsh"};
constexpr int kIndent = 4;
// Blanks that a file's values are written with, in addition to its size: a hundred levels make four
// hundred of them for each value.
constexpr uint64_t kMostBlanks = uint64_t{64} << 20U;
constexpr size_t kMostWarnings = 20;  // of one script: a line each may be wrong in the same way
constexpr std::string_view kDescription = "duplicate_value";

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

bool IsDuplicate(const ConfigValue& value) {
  const ConfigValue* description = value.Find("description");
  return value.kind == ConfigKind::kObject && value.members.size() == 2 && description != nullptr &&
         description->kind == ConfigKind::kText && description->text == kDescription &&
         value.Find("values") != nullptr;
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

ConfigValue Duplicate(ConfigValue first, ConfigValue second) {
  ConfigValue values;
  values.kind = ConfigKind::kList;
  values.items.push_back(std::move(first));
  values.items.push_back(std::move(second));
  ConfigValue result;
  result.kind = ConfigKind::kObject;
  result.members.emplace_back("description", TextParameter(std::string(kDescription)));
  result.members.emplace_back("values", std::move(values));
  return result;
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
    MSP_ASSIGN_OR_RETURN(LaunchScript script, ReadLaunchScript(Normalized(text)), name);
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

void HyperparameterReader::Merge(Parameters parameters) {
  ConfigValue object = parameters.Take();
  for (auto& member : object.members) {
    // Not as bindings: clang 14 does not let a lambda see those.
    const std::string& name = member.first;
    ConfigValue& value = member.second;
    const ConfigValue* known = merged_.Find(name);
    if (known == nullptr) {
      merged_.Set(name, std::move(value));
    } else if (!compat_ && IsDuplicate(*known)) {
      ConfigValue both = *known;
      std::vector<ConfigValue>& values = both.members[1].second.items;
      if (std::none_of(values.begin(), values.end(),
                       [&](const ConfigValue& old) { return EqualValues(old, value); })) {
        values.push_back(std::move(value));
        merged_.Set(name, std::move(both));
      }
    } else if (!EqualValues(*known, value)) {
      merged_.Set(name, Duplicate(*known, std::move(value)));
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
  const FileKind kind = KindByName(path.string());
  const bool is_config = kind == FileKind::kYaml || kind == FileKind::kJson;
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, is_config ? kConfigLimitBytes : kScriptLimitBytes));
  return AddText(path.string(), text);
}

std::string HyperparameterReader::Json() const { return WriteMasked(merged_.object()); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): what is masked is the copy
std::string WriteMasked(ConfigValue object) {
  for (auto& [name, value] : object.members) {
    MaskParameter(name, value);
  }
  std::string text;
  json::Writer writer(text, kIndent);
  WriteParameter(object, writer);
  return text;
}

}  // namespace msprobe::analysis::config_check::internal
