// The keys of free_benchmark, of its section and of the top level, as rows; and what must hold
// between them.
#include <array>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/capture/settings.h"
#include "src/json/config.h"
#include "src/json/settings_table.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

using json::Config;
using json::Json;
using json::SettingsReader;

constexpr std::string_view kFreeBenchmark = "free_benchmark";
constexpr std::array<std::string_view, 6> kPerturbModes = {
    "add_noise", "change_value", "improve_precision", "no_change", "bit_noise", "to_cpu"};
constexpr std::array<std::string_view, 2> kFuzzDevices = {"npu", "cpu"};
constexpr std::array<std::string_view, 2> kFuzzHandlers = {"check", "fix"};
constexpr std::array<std::string_view, 2> kFuzzStages = {"forward", "backward"};
constexpr std::array<std::string_view, 1> kFuzzLevels = {"L1"};
constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();

Status CheckFuzzLevel(const SettingsReader& reader, std::string_view key,
                      FreeBenchmarkSettings& /*settings*/) {
  std::string_view level;
  return reader.OneOf(key, kFuzzLevels, level);
}

// A list, or a text that stands for a list of one.
Status TextOrList(const SettingsReader& reader, std::string_view key,
                  std::vector<std::string>& out) {
  const Json* value = reader.Find(key);
  if (value != nullptr && value->is_string()) {
    out.clear();
    if (!json::TextOf(*value).empty()) {
      out.push_back(json::TextOf(*value));
    }
    return {};
  }
  return reader.TextList(key, out);
}

// Keys that do not go together; the complaint stands at the one that can be changed most easily.
Status CheckFuzzKeysTogether(const SettingsReader& reader, Framework framework,
                             const FreeBenchmarkSettings& settings) {
  const auto complain = [&reader](std::string_view key, std::string_view other,
                                  std::string_view what) {
    const Json* value = reader.Find(key);
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

using FuzzRow = json::SettingsRow<FreeBenchmarkSettings>;

// Keys of the configuration's top level; there are others, which belong to other tasks.
const std::vector<FuzzRow>& TopRows() {
  using Settings = FreeBenchmarkSettings;
  static const std::vector<FuzzRow> kRows = {
      {"dump_path", json::KindFor(&Settings::dump_path, ReadDumpPath)},
      {"rank", json::NumberSet(&Settings::ranks)},
      {"step", json::NumberSet(&Settings::steps)},
      {"level", {CheckFuzzLevel, nullptr}}};
  return kRows;
}

// Keys of the section, in the order in which messages list them.
const std::vector<FuzzRow>& SectionRows() {
  using Settings = FreeBenchmarkSettings;
  static const std::vector<FuzzRow> kRows = {
      {"scope", json::KindFor(&Settings::scope, TextOrList)},
      {"list", json::KindFor(&Settings::list, TextOrList)},
      {"fuzz_device", json::OneOf(&Settings::fuzz_device, kFuzzDevices)},
      {"pert_mode", json::OneOf(&Settings::pert_mode, kPerturbModes)},
      {"handler_type", json::OneOf(&Settings::handler_type, kFuzzHandlers)},
      {"fuzz_level", {CheckFuzzLevel, nullptr}},
      {"fuzz_stage", json::OneOf(&Settings::fuzz_stage, kFuzzStages)},
      {"if_preheat", json::Switch(&Settings::if_preheat)},
      {"preheat_step",
       {[](const SettingsReader& reader, std::string_view key, Settings& settings) {
          const int64_t least = settings.if_preheat ? 1 : std::numeric_limits<int64_t>::min();
          return reader.Int(key, least, kMostCount, settings.preheat_step);
        },
        json::WriteFrom<Settings>(&Settings::preheat_step)}},
      {"max_sample", json::Number(&Settings::max_sample, 1, kMostCount)},
      {"noise_ulps", json::Number(&Settings::noise_ulps, 0, kMostCount)},
      {"every_n_calls", json::Number(&Settings::every_n_calls, 1, kMostCount)},
      {"max_calls_per_api", json::Number(&Settings::max_calls_per_api, 0, kMostCount)},
      {"all_inputs", json::Switch(&Settings::all_inputs)},
      {"compat", json::Switch(&Settings::compat)}};
  return kRows;
}

}  // namespace

Result<FreeBenchmarkSettings> LoadFreeBenchmarkSettings(const base::Path& config_path,
                                                        std::string_view overrides_json,
                                                        Framework framework,
                                                        std::string_view overrides_name) {
  MSP_ASSIGN_OR_RETURN(const GivenConfigs given,
                       ReadGivenConfigs(config_path, "the defaults", overrides_json, overrides_name,
                                        config_path.empty()));
  // Without a file the overrides are the whole configuration.
  const Config& file = config_path.empty() ? given.overrides : given.file;
  const SettingsReader file_reader(file, file.root(), "");
  const SettingsReader override_reader(given.overrides, given.overrides.root(), "");
  FreeBenchmarkSettings settings;
  MSP_RETURN_IF_ERROR(json::ReadRows(TopRows(), file_reader, settings));
  if (const Json* section = file_reader.Find(kFreeBenchmark)) {
    const SettingsReader reader(file, *section, kFreeBenchmark);
    const std::vector<std::string> valid = json::KeyNames(SectionRows());
    for (const auto& [key, value] : section->items()) {
      if (!base::IsOneOf(key, valid)) {
        return json::UnknownKeyError(reader, value, key, valid);
      }
    }
    MSP_RETURN_IF_ERROR(json::ReadRows(SectionRows(), reader, settings));
    MSP_RETURN_IF_ERROR(CheckFuzzKeysTogether(reader, framework, settings));
  }
  MSP_RETURN_IF_ERROR(json::ReadRows(TopRows(), override_reader, settings));
  if (settings.dump_path.empty()) {
    return file.ErrorAt(file.root(), "dump_path",
                        "is missing or empty; allowed: the folder to write to");
  }
  return settings;
}

std::string FreeBenchmarkJson(const FreeBenchmarkSettings& settings) {
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  json::WriteRows(TopRows(), settings, writer);
  json::WriteRows(SectionRows(), settings, writer);
  writer.EndObject();
  return text;
}

std::string FreeBenchmarkConfig(const FreeBenchmarkSettings& settings, int indent) {
  std::string text;
  json::Writer writer(text, indent);
  writer.BeginObject();
  writer.Member("task", kFreeBenchmark);
  json::WriteRows(TopRows(), settings, writer);
  writer.Object(kFreeBenchmark, [&] { json::WriteRows(SectionRows(), settings, writer); });
  writer.EndObject();
  return text;
}

FreeBenchmarkSettings FreeBenchmarkToStartWith() {
  FreeBenchmarkSettings settings;
  settings.dump_path = "./msprobe_free_benchmark";
  settings.pert_mode = "add_noise";
  return settings;
}

Result<std::string> ConfiguredTask(const base::Path& config_path) {
  MSP_ASSIGN_OR_RETURN(const Config file, json::LoadJsonConfig(config_path));
  const Json* task = json::Find(file.root(), "task");
  return task != nullptr && task->is_string() ? json::TextOf(*task) : std::string();
}

Result<bool> NamesLevel(const base::Path& config_path) {
  MSP_ASSIGN_OR_RETURN(const Config file, json::LoadJsonConfig(config_path));
  return json::Find(file.root(), "level") != nullptr;
}

}  // namespace msprobe::capture
