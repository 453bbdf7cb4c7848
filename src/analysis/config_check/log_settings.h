// The settings that trainings printed into their logs: those of two runs compared, or those of one
// held against what is required of it.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::config_check {

struct LogSettingsOptions {
  std::filesystem::path
      first;  // log of the NPU side, or YAML of requirements; empty: built-in ones
  std::filesystem::path second;  // log of the bench side, or the log to verify
  std::filesystem::path output_folder;
};

// Values as Python's repr spells them; "NA" where a side does not have the setting.
struct LogSetting {
  std::string name;  // keys joined by '/'
  std::array<std::string, 2> values;
  std::array<bool, 2> present = {false, false};
  bool equal = false;  // as Python compares: 5 == 5.0, True == 1
};

struct LogSettingsRun {
  bool verified = false;               // against requirements; otherwise two logs were compared
  std::array<std::string, 2> sources;  // "npu.log line 5", "built-in requirements"
  std::vector<LogSetting> settings;    // in order of name
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;

  size_t different() const;
  // Settings that both sides have.
  size_t common() const;
};

// Writes NPU_config.json, bench_config.json and hyper_params_compare.csv. Settings below keys that
// hold "ray_" or "profiler" are left out, as in the Python tool.
Result<LogSettingsRun> CompareLogSettings(const LogSettingsOptions& options);
// Writes tgt_config.json and hyper_params_verify.csv: a row for each requirement.
Result<LogSettingsRun> VerifyLogSettings(const LogSettingsOptions& options);

}  // namespace msprobe::analysis::config_check
