// The one list of the tables that a monitored step is written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/monitor/layer_features.h"

namespace msprobe::monitor {

// In the order in which they are written at the end of a step.
enum class Table : uint8_t {
  kActv,
  kActvGrad,
  kGradUnreduced,
  kGradReduced,
  kExpAvg,
  kExpAvgSq,
  kParamOrigin,
  kParamUpdated,
  kUpdateRatio,
  kAttentionHook,  // these four: of layer_features.h
  kLinearHook,
  kRouterWeightHook,
  kRouterLogitHook,
  kOther
};
inline constexpr size_t kTableCount = 14;
std::string_view TableName(Table table);
// nullopt: the table holds no features of layers.
std::optional<FeatureHook> FeatureHookOf(Table table);

}  // namespace msprobe::monitor
