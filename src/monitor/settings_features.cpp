#include "src/monitor/settings_features.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::monitor {
namespace {

using json::ConfigKind;
using json::ConfigValue;

constexpr std::array<json::Choice<AttentionLayout>, 2> kLayouts = {
    {{"s,b,h,d", AttentionLayout::kSequenceFirst}, {"b,s,h,d", AttentionLayout::kBatchFirst}}};

const std::vector<std::string>& HookNames() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(kFeatureHookCount);
    for (const FeatureTable& table : kFeatureTables) {
      names.emplace_back(table.name);
    }
    return names;
  }();
  return kNames;
}

Status ReadTargets(const json::Config& config, const ConfigValue& value,
                   FeatureSettings& features) {
  if (value.kind != ConfigKind::kObject) {
    return config.ErrorAt(value, "l2_targets",
                          fmt::format("is {}; allowed: an object such as "
                                      "{{\"linear_hook\": [\"layers.0.mlp\"]}}",
                                      json::ShownValue(value)));
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(value, HookNames()), "key \"l2_targets\"");
  const json::SettingsReader reader(config, value, "l2_targets");
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    const FeatureTable& table = kFeatureTables[hook];
    const ConfigValue* list = reader.Find(table.name);
    if (list == nullptr) {
      features.targets[hook].reset();
      continue;
    }
    std::vector<std::string> names;
    MSP_RETURN_IF_ERROR(reader.TextList(table.name, names));
    if (names.empty() && !table.takes_every_module) {
      return reader.Error(*list, table.name, "is empty; allowed: a list of names of modules");
    }
    features.targets[hook] = std::move(names);
  }
  return {};
}

}  // namespace

Status ReadFeatures(const json::Config& config, FeatureSettings& features,
                    std::vector<std::string>& warnings) {
  const json::SettingsReader reader(config, config.root, "");
  MSP_RETURN_IF_ERROR(reader.Bool("recording_l2_features", features.is_recorded));
  MSP_RETURN_IF_ERROR(reader.Choose("sa_order", kLayouts, features.layout));
  if (const ConfigValue* targets = reader.Find("l2_targets")) {
    MSP_RETURN_IF_ERROR(ReadTargets(config, *targets, features));
  }
  const ConfigValue* const asked = reader.Find("recording_l2_features");
  const bool has_targets = std::any_of(features.targets.begin(), features.targets.end(),
                                       [](const auto& names) { return names.has_value(); });
  if (asked != nullptr && features.is_recorded && !has_targets) {
    warnings.push_back(config
                           .ErrorAt(*asked, "recording_l2_features",
                                    fmt::format("is true, but \"l2_targets\" names none of {}: "
                                                "no features are recorded",
                                                base::Join(HookNames(), ", ")))
                           .message());
  }
  return {};
}

void WriteFeatures(const FeatureSettings& features, json::Writer& json) {
  json.Member("recording_l2_features", features.is_recorded);
  json.Key("l2_targets");
  json.BeginObject();
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    if (features.targets[hook]) {
      json.Member(kFeatureTables[hook].name, *features.targets[hook]);
    }
  }
  json.EndObject();
  json.Member("sa_order", NameOf(kLayouts, features.layout));
}

}  // namespace msprobe::monitor
