// Decides which steps are watched and, in dynamic mode, when the configuration file is read again.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/settings.h"

namespace msprobe::monitor {

// Selects the parameters and modules that are watched, and names them for the tables.

// The short form of a name: "encoder.layers.0.mlp" is "0.mlp" (kFirst), or "layers.0.mlp"
// (kAnchored).
std::string_view SquashName(std::string_view name, SquashRules rules);

// Hands out reported names "<stage>:<name>". One thread at a time.
class WatchedNames {
 public:
  explicit WatchedNames(const Settings& settings);

  // nullopt: not watched. A target says which ones begin with it, up to the end of a part of the
  // name: "layers.1" means layers.1.mlp, not layers.10. A squashed name that an earlier parameter
  // has taken makes this one keep its full name.
  std::optional<std::string> OfParameter(int32_t stage, std::string_view full_name);
  // A target is the name of the module, or the pattern of several. One found by its target is
  // reported under the target, so that its rows are found under what was asked for.
  std::optional<std::string> OfModule(int32_t stage, std::string_view full_name);
  // The module of which the features of `hook` are recorded; with an empty list of targets every
  // one that is asked for. Reported as by OfModule.
  std::optional<std::string> OfFeatureModule(FeatureHook hook, int32_t stage,
                                             std::string_view full_name);
  void Forget();

 private:
  struct Target {
    std::optional<int32_t> stage;  // nullopt: every stage
    std::string name;
    bool is_pattern = false;  // holds '*' or '?'
  };
  using Taken = std::set<std::string, std::less<>>;
  struct FeatureModules {
    bool is_recorded = false;
    std::vector<Target> targets;
    Taken taken;
  };

  static std::vector<Target> ParseTargets(const std::vector<std::string>& keys);
  std::string Squashed(std::string_view full_name) const;
  // `squashed`, or the full name when another one has it.
  static std::string TakeFree(int32_t stage, std::string_view full_name, std::string_view squashed,
                              Taken& taken);
  // `takes_all`: whatever the targets are.
  std::optional<std::string> Module(int32_t stage, std::string_view full_name,
                                    const std::vector<Target>& targets, bool takes_all,
                                    Taken& taken) const;

  bool squash_;
  SquashRules rules_;
  bool every_module_;
  std::vector<Target> targets_;
  Taken parameters_;
  Taken modules_;
  std::array<FeatureModules, kFeatureHookCount> features_;
};

enum class State : uint8_t { kOff, kOn, kFinished };

// One thread at a time.
class Schedule {
 public:
  Schedule(std::filesystem::path config_path, std::string overrides_json,
           std::shared_ptr<const Settings> settings, bool is_dynamic);

  void Begin(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }
  // The state for the next step. `is_rank_selected`: by module_ranks.
  State StateOf(bool is_rank_selected) const;
  // The step is over. `collected`: it was watched. True when the settings are new ones.
  bool EndStep(bool collected);

  const std::shared_ptr<const Settings>& settings() const { return settings_; }
  void SetSettings(std::shared_ptr<const Settings> settings) { settings_ = std::move(settings); }

 private:
  using FileTime = std::filesystem::file_time_type;

  bool LookAtFile();
  // Writes the configuration back with "dynamic_on": false.
  void SwitchOffInFile();
  std::optional<FileTime> TimeOfFile() const;

  const std::filesystem::path config_path_;
  const std::string overrides_json_;
  const bool is_dynamic_;
  std::shared_ptr<const Settings> settings_;
  int64_t step_ = 0;
  int64_t collected_ = 0;
  bool is_active_;
  bool is_finished_ = false;
  std::optional<FileTime> seen_;  // the file as it was when last looked at
};

}  // namespace msprobe::monitor
