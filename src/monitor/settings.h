// What to watch: the configuration file with every default filled in and every rule checked.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/alert_judge.h"
#include "src/monitor/layer_features.h"
#include "src/monitor/statistics.h"

namespace msprobe::monitor {

enum class Format { kCsv, kTensorBoard, kSqlite, kApi };
// Which part of a long name is left out.
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
  // Of numbers too small for `digits` decimals; 0: the file says ndigits, which leaves no choice.
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
  std::vector<int64_t> steps;  // sorted; empty: all
  SquashRules squash_rules = SquashRules::kFirst;
  bool compat = false;  // numbers and cells exactly as the Python tool writes them

  // What was corrected, or means nothing: for the user's eyes.
  std::vector<std::string> warnings;
};

// `overrides_json`: empty, or an object of top-level keys that win over the file. Errors name file,
// line, key path, value, what is allowed and the nearest key.
Result<Settings> LoadSettings(const std::filesystem::path& config_path,
                              std::string_view overrides_json);
// All keys with their values, as one JSON object; a file holding it means the same settings.
std::string SettingsJson(const Settings& settings);

// $MONITOR_OUTPUT_DIR, or ./monitor_output; absolute.
std::filesystem::path OutputRoot();
// $DYNAMIC_MONITOR is "true", in any case.
bool IsDynamic();

}  // namespace msprobe::monitor
