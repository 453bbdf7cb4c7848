// Inside of the room: which steps are watched, and in dynamic mode when the configuration file is
// applied anew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "msprobe/status.h"

#include "src/monitor/settings.h"

namespace msprobe::monitor {

enum class State : uint8_t { kOff, kOn, kFinished };

// One thread at a time.
class Schedule {
 public:
  Schedule(std::filesystem::path config_path, std::string overrides_json,
           std::shared_ptr<const Settings> settings, bool is_dynamic);

  void Begin(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }
  // Of the step to come. `is_rank_selected`: by module_ranks.
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
