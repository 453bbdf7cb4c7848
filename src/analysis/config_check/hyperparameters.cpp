#include "src/analysis/config_check/hyperparameters.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/document.h"
#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/python_script.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/config.h"
#include "src/json/document.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr uint64_t kLimitBytes = uint64_t{64} << 20U;

}  // namespace

Result<std::string> ReadDynamicParameters(const std::filesystem::path& path, size_t* masked) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLimitBytes));
  MSP_ASSIGN_OR_RETURN(json::Json parameters, json::ParseDocument(text), path.string());
  if (!parameters.is_object()) {
    return BadFormatError(fmt::format("{}: parameters are one JSON object", path.string()));
  }
  return WriteMasked(std::move(parameters), masked);
}

namespace {

// The depth of a config is limited where it is read, so recursion is, too.
class Flattener {
 public:
  Flattener(bool compat, size_t bytes) : compat_(compat), names_(bytes) {}

  // Takes what is kept out of `value`: a list may be large.
  Status Walk(const std::string& name, json::Json& value, bool top) {
    MSP_RETURN_IF_ERROR(names_.Take(name));
    if (value.is_object() && (compat_ || top || !value.empty())) {
      for (auto& [key, member] : value.get_ref<json::Json::object_t&>()) {
        MSP_RETURN_IF_ERROR(
            Walk(name.empty() ? key : fmt::format("{}.{}", name, key), member, false));
      }
      return {};
    }
    if (compat_ && value.is_array()) {
      for (json::Json& item : value) {
        MSP_RETURN_IF_ERROR(Walk(name, item, false));
      }
      return {};
    }
    if (!compat_ || (!value.is_number_float() && !value.is_null())) {
      parameters_.Set(name, std::move(value));
    }
    return {};
  }

  Parameters& parameters() { return parameters_; }

 private:
  const bool compat_;
  NameBudget names_;
  Parameters parameters_;
};

}  // namespace

Result<Parameters> FlattenConfig(json::Json root, size_t bytes, bool compat) {
  Flattener flattener(compat, bytes);
  if (!root.is_null()) {
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

enum class FileKind { kScript, kPython, kYaml, kJson, kUnknown };

FileKind KindByName(std::string_view name) {
  if (std::any_of(kScriptSuffixes.begin(), kScriptSuffixes.end(),
                  [name](std::string_view suffix) { return name.ends_with(suffix); })) {
    return FileKind::kScript;
  }
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    return FileKind::kYaml;
  }
  if (name.ends_with(".py")) {
    return FileKind::kPython;
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

// What a value at this level is indented by when it is written, with all in it.
uint64_t BlanksOf(const json::Json& value, uint64_t level) {
  uint64_t blanks = uint64_t{kIndent} * level;
  if (value.is_structured()) {
    for (const json::Json& child : value) {
      blanks += BlanksOf(child, level + 1);
    }
  }
  return blanks;
}

}  // namespace

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
  if (kind == FileKind::kPython && !compat_) {
    return ReadPythonScript(Normalized(text));
  }
  if (kind == FileKind::kUnknown || kind == FileKind::kPython) {
    return UnsupportedError(fmt::format("{}: neither a launch script nor a config", name))
        .WithHint("name files .sh, .py, .yaml, .yml or .json; scripts may begin with #!/bin/bash");
  }
  const json::YamlKeys keys = compat_ ? json::YamlKeys::kTexts : json::YamlKeys::kAny;
  MSP_ASSIGN_OR_RETURN(json::Json config, kind == FileKind::kYaml
                                              ? json::ParseYamlData(text, name, keys)
                                              : json::ParseJsonData(text, name));
  MSP_ASSIGN_OR_RETURN(Parameters parameters,
                       FlattenConfig(std::move(config), text.size(), compat_), name);
  uint64_t blanks = 0;
  for (const json::Json& value : parameters.object()) {
    blanks += BlanksOf(value, 1);
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
  for (const auto& [key, value] : parameters.object().items()) {
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

namespace {

// A value, or those that several places give for it, unless they are there.
void AddValues(const json::Json& value, std::vector<json::Json>& values, bool takes_apart = true) {
  const json::Json* const several = takes_apart ? ValuesOf(value) : nullptr;
  const std::span<const json::Json> added =
      several == nullptr ? std::span(&value, 1) : json::ItemsOf(*several);
  for (const json::Json& one : added) {
    if (std::none_of(values.begin(), values.end(),
                     [&one](const json::Json& known) { return PythonEqual(known, one); })) {
      values.push_back(one);
    }
  }
}

}  // namespace

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
    } else if (!PythonEqual(known->value, variable.value)) {
      std::vector<json::Json> values;
      AddValues(known->value, values);
      AddValues(variable.value, values);
      known->value = values.size() == 1 ? values[0] : OneOf(std::move(values));
      known->origin += ", " + origin;
    }
  }
}

void HyperparameterReader::Merge(Parameters parameters) {
  json::Json object = parameters.Take();
  for (auto& [name, value] : object.get_ref<json::Json::object_t&>()) {
    const json::Json* known = merged_.Find(name);
    if (known == nullptr) {
      merged_.Set(name, std::move(value));
      continue;
    }
    std::vector<json::Json> values;
    AddValues(*known, values, !compat_);
    const size_t before = values.size();
    AddValues(value, values, !compat_);
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
std::string WriteMasked(json::Json object, size_t* masked) {
  const size_t count = MaskParameters(object);
  if (masked != nullptr) {
    *masked += count;
  }
  return json::DocumentText(object, kIndent, json::Writer::NonFinite::kPython);
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 200;  // of a folder: a project has some dozen
// A model's folder holds its code, too.
constexpr std::array<std::string_view, 7> kWeightSuffixes = {
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".distcp", ".index.json"};

bool IsCollectableFile(const fs::path& path) {
  const std::string name = path.string();
  // A list of the parts of a checkpoint.
  if (name.ends_with(".index.json")) {
    return false;
  }
  if (internal::KindByName(name) != internal::FileKind::kUnknown) {
    return true;
  }
  constexpr size_t kFirstLine = 100;
  return internal::BeginsAsScript(base::HeadOf(path, kFirstLine));
}

}  // namespace

std::vector<fs::path> CollectableFiles(const fs::path& folder) {
  std::vector<fs::path> files;
  bool has_script = false;
  for (const std::string& name : base::NamesIn(folder)) {
    const fs::path file = folder / name;
    std::error_code error;
    if (std::any_of(kWeightSuffixes.begin(), kWeightSuffixes.end(),
                    [&name](std::string_view suffix) { return name.ends_with(suffix); })) {
      return {};
    }
    if (files.size() == kMostFiles || !fs::is_regular_file(file, error)) {
      continue;
    }
    if (IsCollectableFile(file)) {
      files.push_back(file);
      // A checkpoint has configs in JSON, too.
      has_script = has_script || internal::KindByName(name) != internal::FileKind::kJson;
    }
  }
  return has_script ? files : std::vector<fs::path>();
}

bool IsCollectable(const fs::path& path) {
  return base::IsFolder(path) ? !CollectableFiles(path).empty() : IsCollectableFile(path);
}

}  // namespace msprobe::analysis::config_check
