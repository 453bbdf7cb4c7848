// What is asked of config_check: to compare two packs, to collect one, or to look at the settings
// that trainings printed into their logs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::config_check {

// Of the checks of two packs.
struct CheckOptions {
  std::string framework;              // "pytorch", "mindspore" or empty
  bool normalize_env = false;         // values that mean the same are no difference
  bool normalize_pip = false;         // package names in any spelling, whole versions
  bool ignore_collector_env = false;  // leave out what the Python tool sets while collecting
  bool compat = false;                // only the rows of the Python tool
};

// A pack, collected on this machine.
struct CollectOptions {
  std::vector<std::filesystem::path> inputs;  // launch scripts (.sh), configs (.yaml, .yml, .json)
  std::filesystem::path dynamic;  // parameters of a running program: one JSON object; empty: none
  std::filesystem::path output = "./config_check_pack.zip";
  std::string python;   // interpreter: a path or a name looked up in PATH; empty: the one in use
  bool compat = false;  // hyperparameters with every quirk of the Python tool
  bool inputs_only = false;  // neither this process's environment nor packages
};

// Two packs, compared. A launch script or config in the place of one is collected first.
struct CompareOptions {
  std::filesystem::path bench_pack;
  std::filesystem::path cmp_pack;
  std::string python;  // of a pack that is collected, as above
  std::filesystem::path output_folder = "./config_check_result";
  bool write_xlsx = true;
  bool write_json = false;
  CheckOptions check;
};

// Settings in logs: those of two runs compared, or those of one held against what is required of
// it.
struct LogSettingsOptions {
  bool verify = false;  // against requirements
  // Log of the NPU side; with `verify` YAML of requirements, empty for the built-in ones.
  std::filesystem::path first;
  std::filesystem::path second;  // log of the bench side; with `verify` the log
  std::filesystem::path output_folder;
};

}  // namespace msprobe::analysis::config_check
