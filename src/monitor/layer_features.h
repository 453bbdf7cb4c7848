// Features of single layers (the second level of version 26): which kinds there are, and what the
// table of each holds. The numbers themselves come from the framework's side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/monitor/statistics.h"

namespace msprobe::monitor {

enum class FeatureHook : uint8_t { kAttention, kLinear, kRouterWeight, kRouterLogit };
inline constexpr size_t kFeatureHookCount = 4;

struct FeatureTable {
  std::string_view name;  // of the table, and of the key in "l2_targets"
  std::span<const Statistic> columns;
  bool has_micro_step = false;      // else: once per step
  bool takes_every_module = false;  // with an empty list of targets: every one that fits
};

namespace internal {
inline constexpr std::array kAttentionColumns = {Statistic::kEntropy, Statistic::kSoftmaxMax};
inline constexpr std::array kLinearColumns = {Statistic::kSpectralRatio, Statistic::kKernelNorm};
inline constexpr std::array kRouterWeightColumns = {Statistic::kRouterWeightSimilarity};
inline constexpr std::array kRouterLogitColumns = {Statistic::kTokenExpertEntropy};
}  // namespace internal

// In the order of FeatureHook.
inline constexpr std::array<FeatureTable, kFeatureHookCount> kFeatureTables = {
    {{.name = "attention_hook", .columns = internal::kAttentionColumns, .has_micro_step = true},
     {.name = "linear_hook", .columns = internal::kLinearColumns, .takes_every_module = true},
     {.name = "moe_router_weight_hook", .columns = internal::kRouterWeightColumns},
     {.name = "moe_router_logit_hook",
      .columns = internal::kRouterLogitColumns,
      .has_micro_step = true}}};

constexpr const FeatureTable& TableOf(FeatureHook hook) {
  return kFeatureTables[static_cast<size_t>(hook)];
}

}  // namespace msprobe::monitor
