// Hyperparameters from launch scripts and configs, merged into one list.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/collect.h"
#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check::internal {

// Names of nested keys are joined by dots. As the Python tool does it (`compat`): floats, nulls,
// dates and empty lists are left out, the last element stands for a list, and keys that are not
// text are refused below the top.
Result<Parameters> FlattenConfig(json::Json root, size_t bytes, bool compat);

// Reads one file after the other, and merges what they say.
class HyperparameterReader {
 public:
  explicit HyperparameterReader(bool compat) : compat_(compat) {}

  // The files that will be added: scripts among them may run or source each other, and what one of
  // them is given by another is not known of it alone.
  void Announce(const std::vector<std::filesystem::path>& paths);
  // It is run or sourced by another one that was announced, and adds nothing by itself.
  bool IsPartOfAnother(const std::filesystem::path& path) const;

  // Adds one file; its name gives the kind (.sh, .yaml, .yml, .json; for others by their first
  // line); returns how many parameters it holds. After an error nothing of it was added.
  Result<size_t> Add(const std::filesystem::path& path);

  // The same from memory. Names of scripts end with ".sh", of configs with ".yaml" or ".json".
  Result<size_t> AddText(std::string_view name, std::string_view text);

  const Parameters& merged() const { return merged_; }
  // The environment variables that the scripts set.
  const std::vector<ScriptVariable>& environment() const { return environment_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The content of hyperparameters_static.json; `masked` grows by the secrets that were replaced.
  std::string Json(size_t* masked = nullptr) const;

 private:
  Result<Parameters> Parse(std::string_view name, std::string_view text);
  void Merge(Parameters parameters);
  void Merge(std::string_view script, std::vector<LaunchVariable> variables);
  const std::string* Find(std::string_view script);

  const bool compat_;
  std::map<std::string, std::filesystem::path, std::less<>> announced_;  // scripts by their names
  std::map<std::string, std::string, std::less<>> texts_;                // of those
  std::vector<std::string> parts_;                                       // run by others
  std::vector<ScriptVariable> environment_;
  Parameters merged_;
  Parameters yaml_so_far_;  // the Python tool's second YAML file repeats the first
  std::vector<std::string> warnings_;
};

// An object of parameters as the content of a member. Secrets are replaced and counted.
std::string WriteMasked(json::Json object, size_t* masked);

// The content of hyperparameters_dynamic.json: what a running program says of itself, a file with
// one JSON object (NaN and Infinity allowed). Secrets are replaced and counted.
Result<std::string> ReadDynamicParameters(const std::filesystem::path& path,
                                          size_t* masked = nullptr);

}  // namespace msprobe::analysis::config_check::internal
