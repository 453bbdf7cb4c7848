#include "src/capture/settings_keys.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/capture/step_folder.h"

namespace msprobe::capture {
namespace {

using json::ConfigKind;
using json::ConfigValue;

struct ForeignKey {
  std::string_view key;
  std::string_view hint;
};
constexpr std::array<ForeignKey, 2> kForeignKeys = {
    {{"seed", "call seed_all(seed=...) in the training script"},
     {"is_deterministic", "call seed_all(mode=True) in the training script"}}};

using Keys = std::vector<std::string>;

const Keys& CommonKeys() {
  static const Keys keys = {"task",
                            "dump_path",
                            "rank",
                            "step",
                            "level",
                            "enable_dataloader",
                            "async_dump",
                            "dump_enable",
                            "risk_level",
                            "custom_op_namespaces",
                            "precision",
                            "api_backward",
                            "repeat",
                            "extra_info",
                            "extended_statistics",
                            "strict_json",
                            "deduplicate",
                            "deduplicate_from_bytes",
                            "writer_memory_bytes",
                            "writer_threads",
                            "max_overhead_ms",
                            "max_bytes_per_s"};
  return keys;
}

// Of any section; they may stand at top level too.
const Keys& TaskKeys() {
  static const Keys keys = {
      "scope",          "list",          "tensor_list",   "data_mode",
      "summary_mode",   "overflow_nums", "slice",         "request_id",
      "bench_path",     "diff_nums",     "online_run_ut", "nfs_path",
      "host",           "port",          "tls_path",      "online_run_ut_recompute",
      "online_wait_ms", "plaintext",     "secret_path"};
  return keys;
}

const Keys& SectionKeys(Task task) {
  static const Keys statistics = {"scope",  "list",      "tensor_list", "data_mode", "summary_mode",
                                  "device", "precision", "slice",       "request_id"};
  static const Keys tensor = {
      "scope",          "list",       "data_mode",  "summary_mode", "slice",
      "request_id",     "bench_path", "diff_nums",  "file_format",  "online_run_ut",
      "nfs_path",       "tls_path",   "host",       "port",         "online_run_ut_recompute",
      "online_wait_ms", "plaintext",  "secret_path"};
  static const Keys overflow = {"overflow_nums", "check_mode", "scope", "list", "data_mode"};
  static const Keys structure = {"scope", "list", "data_mode"};
  static const Keys nan_check = {"scope", "list", "tensor_list", "data_mode"};
  switch (task) {
    case Task::kStatistics:
      return statistics;
    case Task::kTensor:
      return tensor;
    case Task::kOverflowCheck:
      return overflow;
    case Task::kNanCheck:
      return nan_check;
    case Task::kStructure:
      break;
  }
  return structure;
}

Status UnknownKey(const SettingsReader& reader, const ConfigValue& value, std::string_view key,
                  const Keys& valid) {
  for (const ForeignKey& foreign : kForeignKeys) {
    if (foreign.key == key) {
      return reader.Error(value, key, "no such key").WithHint(foreign.hint);
    }
  }
  Status error = reader.Error(value, key, "no such key");
  if (const auto nearest = base::NearestMatch(key, valid)) {
    return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
  }
  return std::move(error).WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
}

// Of the whole file, or of the arguments of a call, which hold no sections.
Status CheckTopLevelKeys(const SettingsReader& reader, const ConfigValue& root,
                         bool sections_allowed) {
  Keys valid = CommonKeys();
  valid.insert(valid.end(), TaskKeys().begin(), TaskKeys().end());
  Keys sections;
  if (sections_allowed) {
    for (const Choice<Task>& task : kTasks) {
      sections.emplace_back(task.name);
    }
    sections.insert(sections.end(), kForeignTasks.begin(), kForeignTasks.end());
  }
  for (const auto& [key, value] : root.members) {
    if (base::IsOneOf(key, sections)) {
      if (value.kind != ConfigKind::kObject && value.kind != ConfigKind::kNull) {
        return reader.Error(value, key,
                            fmt::format("is {}; allowed: an object of keys", ShownValue(value)));
      }
    } else if (!base::IsOneOf(key, valid)) {
      valid.insert(valid.end(), sections.begin(), sections.end());
      return UnknownKey(reader, value, key, valid);
    }
  }
  return {};
}

}  // namespace

Result<GivenConfigs> ReadGivenConfigs(const base::Path& config_path, std::string nameless_file,
                                      std::string_view overrides_json,
                                      std::string_view overrides_name) {
  GivenConfigs given{{std::move(nameless_file), ConfigValue()}, {}};
  given.file.root.kind = ConfigKind::kObject;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(given.file, json::LoadJsonConfig(config_path));
  }
  MSP_ASSIGN_OR_RETURN(given.overrides,
                       json::ParseJsonConfig(overrides_json.empty() ? "{}" : overrides_json,
                                             std::string(overrides_name)));
  for (const json::Config* config : {&given.file, &given.overrides}) {
    if (config->root.kind != ConfigKind::kObject) {
      return config->ErrorAt(
          config->root, "",
          fmt::format("is {}; allowed: one object of keys", ShownValue(config->root)));
    }
  }
  MSP_RETURN_IF_ERROR(
      CheckTopLevelKeys(SettingsReader(given.file, given.file.root, ""), given.file.root, true));
  MSP_RETURN_IF_ERROR(CheckTopLevelKeys(SettingsReader(given.overrides, given.overrides.root, ""),
                                        given.overrides.root, false));
  return given;
}

Status CheckSectionKeys(const SettingsReader& reader, const ConfigValue& section,
                        const ConfigValue& root, Task task) {
  const Keys& valid = SectionKeys(task);
  for (const auto& [key, value] : section.members) {
    if (!base::IsOneOf(key, valid)) {
      if (base::IsOneOf(key, TaskKeys())) {
        return reader.Error(value, key, fmt::format("has no effect for task {}", TaskName(task)))
            .WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
      }
      if (base::IsOneOf(key, CommonKeys())) {
        return reader.Error(value, key, "no such key").WithHint("it belongs to the top level");
      }
      return UnknownKey(reader, value, key, valid);
    }
    if (const ConfigValue* twin = root.Find(key); twin != nullptr) {
      return reader.Error(value, key,
                          fmt::format("is also given at the top level, in line {}", twin->line));
    }
  }
  return {};
}

Status ReadDumpPath(const SettingsReader& reader, std::string& dump_path) {
  const ConfigValue* value = reader.Find("dump_path");
  MSP_RETURN_IF_ERROR(reader.Text("dump_path", dump_path));
  if (value == nullptr) {
    return {};
  }
  if (dump_path.empty()) {
    return {};  // told when all sources have been read
  }
  if (const Status place = CheckPlace({dump_path, 0, std::nullopt}); !place.ok()) {
    return reader.Error(*value, "dump_path", place.message()).WithHint(place.hint());
  }
  std::error_code ignored;
  if (std::filesystem::exists(dump_path, ignored) &&
      !std::filesystem::is_directory(dump_path, ignored)) {
    return reader.Error(*value, "dump_path",
                        fmt::format("is {}, which is not a directory", ShownValue(*value)));
  }
  return {};
}

}  // namespace msprobe::capture
