#include "src/grad_probe/settings.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/json/config.h"
#include "src/json/settings_reader.h"

namespace msprobe::grad_probe {
namespace {

using json::Config;
using json::ConfigKind;
using json::ConfigValue;
using json::SettingsReader;

constexpr std::string_view kTask = "grad_probe";
constexpr std::array<json::Choice<Level>, 3> kLevels = {
    {{"L0", Level::kL0}, {"L1", Level::kL1}, {"L2", Level::kL2}}};
constexpr std::array<json::Choice<SignFormat>, 2> kSignFormats = {
    {{"npy", SignFormat::kNpy}, {"packed", SignFormat::kPacked}}};
constexpr double kLargestBound = 0x1p63;
constexpr size_t kMostBounds = 4096;

struct Source {
  std::optional<Config> file;
  std::optional<Config> overrides;
};

Result<Source> Load(const base::Path& config_path, std::string_view overrides_json) {
  Source source;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(source.file, json::LoadJsonConfig(config_path));
  }
  if (!overrides_json.empty()) {
    MSP_ASSIGN_OR_RETURN(
        source.overrides,
        json::ParseJsonConfig(overrides_json, "the arguments of PrecisionDebugger"));
  }
  return source;
}

Status ReadBounds(const SettingsReader& reader, std::vector<Bound>& bounds) {
  const ConfigValue* const value = reader.Find("bounds");
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kList) {
    return reader.Error(*value, "bounds",
                        fmt::format("is {}; allowed: a list of rising numbers, such as [-1, 0, 1]",
                                    json::ShownValue(*value)));
  }
  if (value->items.size() > kMostBounds) {
    return reader.Error(
        *value, "bounds",
        fmt::format("has {} numbers; at most {} are allowed", value->items.size(), kMostBounds));
  }
  bounds.clear();
  double before = -std::numeric_limits<double>::infinity();
  for (const ConfigValue& item : value->items) {
    const bool whole = item.kind == ConfigKind::kInt;
    if (!whole && item.kind != ConfigKind::kFloat) {
      return reader.Error(item, "bounds",
                          fmt::format("holds {}; allowed: numbers", json::ShownValue(item)));
    }
    if (!(item.number >= -kLargestBound && item.number < kLargestBound)) {
      return reader.Error(
          item, "bounds",
          fmt::format("holds {}; allowed: numbers that fit into 64 bits", json::ShownValue(item)));
    }
    if (!(item.number > before)) {
      return reader.Error(item, "bounds",
                          fmt::format("holds {} behind a number that is not smaller: bounds rise",
                                      json::ShownValue(item)));
    }
    before = item.number;
    bounds.push_back({static_cast<double>(static_cast<float>(item.number)),
                      whole ? std::to_string(item.integer) : base::PythonFloatRepr(item.number)});
  }
  return {};
}

Status ReadSection(const Config& config, const ConfigValue& object, std::string_view name,
                   Settings& settings) {
  const SettingsReader reader(config, object, name);
  MSP_RETURN_IF_ERROR(reader.Choose("grad_level", kLevels, settings.level));
  MSP_RETURN_IF_ERROR(reader.TextList("param_list", settings.parameters));
  MSP_RETURN_IF_ERROR(reader.Choose("sign_format", kSignFormats, settings.sign_format));
  return ReadBounds(reader, settings.bounds);
}

Status ReadSource(const Config& config, Settings& settings) {
  if (config.root.kind != ConfigKind::kObject) {
    return config.ErrorAt(config.root, "", "a configuration is an object");
  }
  const SettingsReader reader(config, config.root, "");
  MSP_RETURN_IF_ERROR(reader.Text("dump_path", settings.dump_path));
  MSP_RETURN_IF_ERROR(reader.NumberSet("rank", settings.ranks));
  MSP_RETURN_IF_ERROR(reader.NumberSet("step", settings.steps));
  const ConfigValue* const section = reader.Find(kTask);
  if (section == nullptr) {
    return {};
  }
  if (section->kind != ConfigKind::kObject) {
    return reader.Error(*section, kTask, "is " + json::ShownValue(*section) + ", not an object");
  }
  const std::string keys[] = {"grad_level", "param_list", "bounds", "sign_format"};
  MSP_RETURN_IF_ERROR(config.CheckKeys(*section, keys));
  return ReadSection(config, *section, kTask, settings);
}

}  // namespace

bool IsGradProbe(const base::Path& config_path, std::string_view overrides_json) {
  const Result<Source> source = Load(config_path, overrides_json);
  if (!source.ok()) {
    return false;
  }
  for (const std::optional<Config>* const config : {&source->overrides, &source->file}) {
    if (!config->has_value() || (*config)->root.kind != ConfigKind::kObject) {
      continue;
    }
    const ConfigValue* const task = (*config)->root.Find("task");
    if (task != nullptr && task->kind == ConfigKind::kText && !task->text.empty()) {
      return task->text == kTask;
    }
  }
  return false;
}

Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json) {
  MSP_ASSIGN_OR_RETURN(const Source source, Load(config_path, overrides_json));
  Settings settings;
  for (const std::optional<Config>* const config : {&source.file, &source.overrides}) {
    if (config->has_value()) {
      MSP_RETURN_IF_ERROR(ReadSource(**config, settings));
    }
  }
  if (settings.dump_path.empty()) {
    return UsageError("dump_path is not given")
        .WithHint("it names the folder for the gradients: \"dump_path\": \"./grad\"");
  }
  return settings;
}

}  // namespace msprobe::grad_probe
