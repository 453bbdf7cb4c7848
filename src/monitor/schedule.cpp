#include "src/monitor/schedule.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::monitor {
namespace {

constexpr uint64_t kLargestConfig = uint64_t{16} << 20U;
constexpr std::string_view kSwitch = "dynamic_on";

// The same document with "dynamic_on": false, as Python writes it with indent 2.
Result<std::string> SwitchedOff(const std::string& text) {
  MSP_ASSIGN_OR_RETURN(const json::ValueTree tree, json::ParseValueTree(text));
  if (tree[0].kind != json::ValueKind::kObject) {
    return BadFormatError("not an object of keys");
  }
  std::string out;
  json::Writer json(out, 2);
  json.BeginObject();
  tree.ForEachChild(0, [&](uint32_t child) {
    json.Key(tree[child].key);
    if (tree[child].key == kSwitch) {
      json.Bool(false);
    } else {
      json::WriteTree(tree, child, json);
    }
  });
  json.EndObject();
  return out;
}

}  // namespace

Schedule::Schedule(std::filesystem::path config_path, std::string overrides_json,
                   std::shared_ptr<const Settings> settings, bool is_dynamic)
    : config_path_(std::move(config_path)),
      overrides_json_(std::move(overrides_json)),
      is_dynamic_(is_dynamic),
      settings_(std::move(settings)),
      is_active_(!is_dynamic) {}

State Schedule::StateOf(bool is_rank_selected) const {
  if (is_finished_) {
    return State::kFinished;
  }
  const bool is_selected =
      step_ >= settings_->start_step &&
      (step_ - settings_->start_step) % settings_->step_interval == 0 &&
      (settings_->steps.empty() ||
       std::binary_search(settings_->steps.begin(), settings_->steps.end(), step_));
  if (!is_dynamic_ && !settings_->steps.empty() && step_ > settings_->steps.back()) {
    return State::kFinished;
  }
  return is_active_ && is_rank_selected && is_selected ? State::kOn : State::kOff;
}

bool Schedule::EndStep(bool collected) {
  ++step_;
  if (collected) {
    ++collected_;
    if (is_active_ && collected_ >= settings_->collect_times) {
      is_active_ = false;
      if (is_dynamic_) {
        SwitchOffInFile();
      } else {
        is_finished_ = true;
      }
    }
  }
  return is_dynamic_ && LookAtFile();
}

std::optional<Schedule::FileTime> Schedule::TimeOfFile() const {
  std::error_code error;
  const FileTime time = std::filesystem::last_write_time(config_path_, error);
  return error ? std::nullopt : std::optional(time);
}

bool Schedule::LookAtFile() {
  const std::optional<FileTime> now = TimeOfFile();
  if (!now || now == seen_) {
    return false;
  }
  seen_ = now;
  Result<Settings> loaded = LoadSettings(config_path_, overrides_json_);
  if (!loaded.ok()) {
    base::LogError(loaded.status().message());
    base::LogHint("the monitor continues unchanged, and reads the file again when it changes");
    return false;
  }
  if (!loaded->dynamic_on) {
    return false;
  }
  // What a running monitor cannot change.
  loaded->squash_name = settings_->squash_name;
  loaded->squash_rules = settings_->squash_rules;
  loaded->append_output = settings_->append_output;
  loaded->start_step = step_;
  for (const std::string& warning : loaded->warnings) {
    base::LogWarning(warning);
  }
  settings_ = std::make_shared<const Settings>(*std::move(loaded));
  collected_ = 0;
  is_active_ = true;
  return true;
}

void Schedule::SwitchOffInFile() {
  const auto rewrite = [this]() -> Status {
    MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(config_path_, kLargestConfig));
    MSP_ASSIGN_OR_RETURN(const std::string off, SwitchedOff(text));
    std::error_code ignored;
    const base::Path linked = std::filesystem::canonical(config_path_, ignored);
    return base::WriteFileAtomically(ignored ? config_path_ : linked, off,
                                     base::Existing::kReplace);
  };
  if (const Status status = rewrite(); !status.ok()) {
    base::LogWarning(fmt::format("cannot set \"{}\" to false in {}: {}", kSwitch,
                                 config_path_.string(), status.message()));
  }
  seen_ = TimeOfFile();
}

}  // namespace msprobe::monitor
