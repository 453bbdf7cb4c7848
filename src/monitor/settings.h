// The settings of a monitor: the configuration file with every default filled in and every rule
// checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/config.h"
#include "src/monitor/alert_judge.h"
#include "src/monitor/batch.h"

namespace msprobe::monitor {

// Features of single layers (the second level of version 26): which kinds there are, and what the
// table of each holds. The numbers themselves come from the framework's side.

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

enum class Format { kCsv, kTensorBoard, kSqlite, kApi };
// The part of a long name that is left out.
enum class SquashRules {
  kFirst,    // of the versions up to 8: "layers.0.mlp" becomes "0.mlp"
  kAnchored  // of version 26: "module.layers.0.mlp" becomes "layers.0.mlp"
};

struct CommunicationSettings {
  bool enable = false;
  bool pre_hook = false;
  bool log_only = false;
  std::vector<std::string> code_lines;  // regular expressions, for the hooks
};

// The axes of queries and keys: sequence, batch, head, size of a head.
enum class AttentionLayout { kSequenceFirst, kBatchFirst };

struct FeatureSettings {
  bool is_recorded = false;
  AttentionLayout layout = AttentionLayout::kSequenceFirst;
  // By FeatureHook. nullopt: none of its modules; empty: every module that fits.
  std::array<std::optional<std::vector<std::string>>, kFeatureHookCount> targets;
};

// What holds in every correct training, by the names that "laws" takes, what comes first in a step
// first: a gradient that was not zeroed breaks all that is made of it. The frameworks' side checks
// laws while the training runs; what holds between ranks is checked by who reads their files.
inline constexpr std::array<std::string_view, 11> kLawNames = {
    "resume",          "replay", "zeroed", "gradient_scale", "reduction", "clip_norm",
    "optimizer_state", "moved",  "frozen", "tied",           "replica"};

struct Settings {
  std::vector<std::string> targets;  // names, patterns, "<stage>:<name>"; never empty
  bool all_xy = false;
  bool xy_distribution = false;
  bool forward_only = false;
  bool backward_only = false;
  bool wg_distribution = false;
  bool monitor_mbs_grad = false;
  bool mv_distribution = false;
  bool param_distribution = false;
  bool ur_distribution = false;
  bool mg_direction = false;
  CommunicationSettings cc;
  bool stack_info = false;
  bool print_struct = false;
  std::vector<int64_t> module_ranks;  // empty: all
  std::vector<Statistic> ops;         // shape and dtype included
  double eps = 1e-8;
  int32_t digits = 6;
  // For numbers too small for `digits` decimals; 0: the file sets ndigits, which leaves no choice.
  int32_t significant_digits = 4;
  Format format = Format::kCsv;
  int64_t start_step = 0;
  int64_t step_interval = 1;
  int64_t collect_times = 100'000'000;
  int64_t steps_per_file = 1;
  std::vector<std::string> append_output;  // empty, or two stamps
  bool squash_name = true;
  AlertSettings alert;
  bool dynamic_on = false;
  FeatureSettings features;

  // Ours.
  std::vector<std::string> laws;         // of kLawNames, in their order; empty: none
  std::vector<std::string> laws_except;  // patterns of names, or "<law>:<pattern>"
  int64_t replay_steps = 0;              // every so many steps one is repeated; 0: none
  bool exchange = false;                 // ranks compare their digests while the run goes on
  std::vector<int64_t> steps;            // sorted; empty: all
  SquashRules squash_rules = SquashRules::kFirst;
  bool compat = false;  // numbers and cells exactly as the Python tool writes them

  // Warnings about corrected or ignored settings, shown to the user.
  std::vector<std::string> warnings;
};

// `overrides_json`: empty, or an object of top-level keys that win over the file. Errors name file,
// line, key path, value, what is allowed and the nearest key.
Result<Settings> LoadSettings(const std::filesystem::path& config_path,
                              std::string_view overrides_json);
// All keys with their values, as one JSON object; a file holding it means the same settings.
// `indent` < 0: on one line.
std::string SettingsJson(const Settings& settings, int indent = -1);
// What `monitor run` records without a configuration: activations, gradients, moments and
// parameters of the whole model in every step, and alerts for NaN.
Settings SettingsToStartWith();

// $MONITOR_OUTPUT_DIR, or ./monitor_output; absolute.
std::filesystem::path OutputRoot();
// $DYNAMIC_MONITOR is "true", in any case.
bool IsDynamic();

// The statistics that "ops" may name: those that belong to no tensor are left out.
const std::vector<std::string>& WantedStatistics();
std::optional<Statistic> FindWantedStatistic(std::string_view name);

}  // namespace msprobe::monitor
