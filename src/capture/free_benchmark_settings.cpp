#include "src/capture/free_benchmark_settings.h"

#include <array>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/capture/settings.h"
#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

using json::Config;
using json::ConfigKind;
using json::ConfigValue;

constexpr std::string_view kFreeBenchmark = "free_benchmark";
constexpr std::array<std::string_view, 6> kPerturbModes = {
    "add_noise", "change_value", "improve_precision", "no_change", "bit_noise", "to_cpu"};
constexpr std::array<std::string_view, 2> kFuzzDevices = {"npu", "cpu"};
constexpr std::array<std::string_view, 2> kFuzzHandlers = {"check", "fix"};
constexpr std::array<std::string_view, 2> kFuzzStages = {"forward", "backward"};
constexpr std::array<std::string_view, 1> kFuzzLevels = {"L1"};
constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();

Status ChooseText(const SettingsReader& reader, std::string_view key,
                  std::span<const std::string_view> names, std::string& out) {
  std::string_view chosen;
  MSP_RETURN_IF_ERROR(reader.OneOf(key, names, chosen));
  if (!chosen.empty()) {
    out = chosen;
  }
  return {};
}

// A list, or a text that stands for a list of one.
Status TextOrList(const SettingsReader& reader, std::string_view key,
                  std::vector<std::string>& out) {
  const ConfigValue* value = reader.Find(key);
  if (value != nullptr && value->kind == ConfigKind::kText) {
    out.clear();
    if (!value->text.empty()) {
      out.push_back(value->text);
    }
    return {};
  }
  return reader.TextList(key, out);
}

Status CheckFuzzKeys(const SettingsReader& reader, const ConfigValue& section) {
  static const std::vector<std::string> valid = {
      "scope",      "list",          "fuzz_device",       "pert_mode",    "handler_type",
      "fuzz_level", "fuzz_stage",    "if_preheat",        "preheat_step", "max_sample",
      "noise_ulps", "every_n_calls", "max_calls_per_api", "all_inputs",   "compat"};
  for (const auto& [key, value] : section.members) {
    if (base::IsOneOf(key, valid)) {
      continue;
    }
    Status error = reader.Error(value, key, "no such key");
    if (const auto nearest = base::NearestMatch(key, valid)) {
      return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
    }
    return std::move(error).WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
  }
  return {};
}

// Keys that do not go together; the complaint stands at the one that can be changed most easily.
Status CheckFuzzKeysTogether(const SettingsReader& reader, Framework framework,
                             const FreeBenchmarkSettings& settings) {
  const auto complain = [&reader](std::string_view key, std::string_view other,
                                  std::string_view what) {
    const ConfigValue* value = reader.Find(key);
    if (value == nullptr) {
      key = other;
      value = reader.Find(other);
    }
    return value == nullptr ? UsageError(std::string(what)) : reader.Error(*value, key, what);
  };
  if (!settings.scope.empty() && !settings.list.empty()) {
    return complain("list", "scope",
                    "is given beside scope; allowed: one of both, the other empty or left out");
  }
  if (settings.pert_mode == "to_cpu" && framework != Framework::kPyTorch) {
    return complain("pert_mode", "",
                    "is \"to_cpu\", which MindSpore does not have: a process runs on one kind of "
                    "device; allowed: add_noise, bit_noise, change_value, improve_precision, "
                    "no_change");
  }
  if (settings.pert_mode == "to_cpu" && settings.fuzz_device != "cpu") {
    return complain("pert_mode", "", "is \"to_cpu\", which needs \"fuzz_device\": \"cpu\"");
  }
  if (settings.pert_mode != "to_cpu" && settings.fuzz_device == "cpu") {
    return complain("fuzz_device", "",
                    "is \"cpu\", which belongs to pert_mode to_cpu; allowed: npu, which means the "
                    "device of the tensors whatever it is");
  }
  if (settings.noise_ulps > 0 && settings.pert_mode != "add_noise") {
    return complain("noise_ulps", "", "belongs to pert_mode add_noise");
  }
  if (settings.handler_type == "fix") {
    if (settings.if_preheat) {
      return complain("handler_type", "", "is \"fix\", which needs \"if_preheat\": false");
    }
    if (settings.fuzz_stage != "forward") {
      return complain("handler_type", "", "is \"fix\", which needs \"fuzz_stage\": \"forward\"");
    }
    if (settings.pert_mode != "improve_precision" && settings.pert_mode != "to_cpu") {
      return complain("handler_type", "",
                      "is \"fix\", which needs pert_mode improve_precision or to_cpu");
    }
  }
  return {};
}

Status ReadFuzzSection(const SettingsReader& reader, Framework framework,
                       FreeBenchmarkSettings& settings) {
  MSP_RETURN_IF_ERROR(TextOrList(reader, "scope", settings.scope));
  MSP_RETURN_IF_ERROR(TextOrList(reader, "list", settings.list));
  MSP_RETURN_IF_ERROR(ChooseText(reader, "pert_mode", kPerturbModes, settings.pert_mode));
  MSP_RETURN_IF_ERROR(ChooseText(reader, "fuzz_device", kFuzzDevices, settings.fuzz_device));
  MSP_RETURN_IF_ERROR(ChooseText(reader, "handler_type", kFuzzHandlers, settings.handler_type));
  MSP_RETURN_IF_ERROR(ChooseText(reader, "fuzz_stage", kFuzzStages, settings.fuzz_stage));
  std::string level;
  MSP_RETURN_IF_ERROR(ChooseText(reader, "fuzz_level", kFuzzLevels, level));
  MSP_RETURN_IF_ERROR(reader.Bool("if_preheat", settings.if_preheat));
  MSP_RETURN_IF_ERROR(reader.Bool("all_inputs", settings.all_inputs));
  MSP_RETURN_IF_ERROR(reader.Bool("compat", settings.compat));
  const int64_t least = settings.if_preheat ? 1 : std::numeric_limits<int64_t>::min();
  MSP_RETURN_IF_ERROR(reader.Int("preheat_step", least, kMostCount, settings.preheat_step));
  MSP_RETURN_IF_ERROR(reader.Int("max_sample", 1, kMostCount, settings.max_sample));
  MSP_RETURN_IF_ERROR(reader.Int("noise_ulps", 1, kMostCount, settings.noise_ulps));
  MSP_RETURN_IF_ERROR(reader.Int("every_n_calls", 1, kMostCount, settings.every_n_calls));
  MSP_RETURN_IF_ERROR(reader.Int("max_calls_per_api", 1, kMostCount, settings.max_calls_per_api));
  return CheckFuzzKeysTogether(reader, framework, settings);
}

Status ReadFuzzTop(const SettingsReader& reader, FreeBenchmarkSettings& settings) {
  MSP_RETURN_IF_ERROR(ReadDumpPath(reader, settings.dump_path));
  MSP_RETURN_IF_ERROR(reader.NumberSet("rank", settings.ranks));
  MSP_RETURN_IF_ERROR(reader.NumberSet("step", settings.steps));
  std::string level;
  return ChooseText(reader, "level", kFuzzLevels, level);
}

}  // namespace

Result<FreeBenchmarkSettings> LoadFreeBenchmarkSettings(const base::Path& config_path,
                                                        std::string_view overrides_json,
                                                        Framework framework,
                                                        std::string_view overrides_name) {
  MSP_ASSIGN_OR_RETURN(const GivenConfigs given, ReadGivenConfigs(config_path, "the defaults",
                                                                  overrides_json, overrides_name));
  const Config& file = given.file;
  const SettingsReader file_reader(file, file.root, "");
  const SettingsReader override_reader(given.overrides, given.overrides.root, "");
  FreeBenchmarkSettings settings;
  MSP_RETURN_IF_ERROR(ReadFuzzTop(file_reader, settings));
  if (const ConfigValue* section = file_reader.Find(kFreeBenchmark)) {
    const SettingsReader reader(file, *section, kFreeBenchmark);
    MSP_RETURN_IF_ERROR(CheckFuzzKeys(reader, *section));
    MSP_RETURN_IF_ERROR(ReadFuzzSection(reader, framework, settings));
  }
  MSP_RETURN_IF_ERROR(ReadFuzzTop(override_reader, settings));
  if (settings.dump_path.empty()) {
    return file.ErrorAt(file.root, "dump_path",
                        "is missing or empty; allowed: the folder to write to");
  }
  return settings;
}

std::string FreeBenchmarkJson(const FreeBenchmarkSettings& settings) {
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  writer.Member("dump_path", settings.dump_path);
  writer.Member("rank", settings.ranks);
  writer.Member("step", settings.steps);
  writer.Member("scope", settings.scope);
  writer.Member("list", settings.list);
  writer.Member("pert_mode", settings.pert_mode);
  writer.Member("fuzz_device", settings.fuzz_device);
  writer.Member("handler_type", settings.handler_type);
  writer.Member("fuzz_stage", settings.fuzz_stage);
  writer.Member("if_preheat", settings.if_preheat);
  writer.Member("preheat_step", settings.preheat_step);
  writer.Member("max_sample", settings.max_sample);
  writer.Member("noise_ulps", settings.noise_ulps);
  writer.Member("every_n_calls", settings.every_n_calls);
  writer.Member("max_calls_per_api", settings.max_calls_per_api);
  writer.Member("all_inputs", settings.all_inputs);
  writer.Member("compat", settings.compat);
  writer.EndObject();
  return text;
}

Result<std::string> ConfiguredTask(const base::Path& config_path) {
  MSP_ASSIGN_OR_RETURN(const Config file, json::LoadJsonConfig(config_path));
  const ConfigValue* task = file.root.Find("task");
  return task != nullptr && task->kind == ConfigKind::kText ? task->text : std::string();
}

}  // namespace msprobe::capture
