#include "src/monitor/schedule.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/document.h"
#include "src/json/writer.h"

namespace msprobe::monitor {
namespace {

// Behind the first "<word>." or "<word>s.", or npos.
size_t EndOfMarker(std::string_view name, std::string_view word) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    size_t end = at + word.size();
    end += end < name.size() && name[end] == 's' ? 1 : 0;
    if (end < name.size() && name[end] == '.') {
      return end + 1;
    }
  }
  return std::string_view::npos;
}

std::string_view SquashFirst(std::string_view name) {
  for (const std::string_view word : {"layer", "embedding"}) {
    if (const size_t end = EndOfMarker(name, word); end != std::string_view::npos) {
      return name.substr(end);
    }
  }
  for (const std::string_view word : {"final", "output", "norm"}) {
    if (const size_t at = name.find(word); at != std::string_view::npos) {
      return name.substr(at);
    }
  }
  return name;
}

bool BeginsWithMarker(std::string_view rest, std::string_view word, bool needs_dot) {
  if (!rest.starts_with(word)) {
    return false;
  }
  size_t end = word.size();
  end += end < rest.size() && rest[end] == 's' ? 1 : 0;
  return !needs_dot || (end < rest.size() && rest[end] == '.');
}

// The part of the name from the last marker that follows a dot; never the whole name.
std::string_view SquashAnchored(std::string_view name) {
  struct Marker {
    std::string_view word;
    bool needs_dot;
  };
  constexpr std::array<Marker, 5> kMarkers = {
      {{"layer", true}, {"embedding", true}, {"final", false}, {"output", false}, {"norm", false}}};
  for (const Marker& marker : kMarkers) {
    size_t end = name.size();
    while (end > 0) {
      const size_t dot = name.rfind('.', end - 1);
      if (dot == std::string_view::npos) {
        break;
      }
      if (BeginsWithMarker(name.substr(dot + 1), marker.word, marker.needs_dot)) {
        return name.substr(dot + 1);
      }
      end = dot;
    }
  }
  return name;
}

bool IsWholePrefix(std::string_view prefix, std::string_view name) {
  return name.starts_with(prefix) && (prefix.empty() || name.size() == prefix.size() ||
                                      prefix.ends_with('.') || name[prefix.size()] == '.');
}

std::string Reported(int32_t stage, std::string_view name) {
  return fmt::format("{}:{}", stage, name);
}

}  // namespace

std::string_view SquashName(std::string_view name, SquashRules rules) {
  return rules == SquashRules::kFirst ? SquashFirst(name) : SquashAnchored(name);
}

WatchedNames::WatchedNames(const Settings& settings)
    : squash_(settings.squash_name),
      rules_(settings.squash_rules),
      every_module_(settings.all_xy || settings.print_struct),
      targets_(ParseTargets(settings.targets)) {
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    const auto& names = settings.features.targets[hook];
    if (settings.features.is_recorded && names) {
      features_[hook].is_recorded = true;
      features_[hook].targets = ParseTargets(*names);
    }
  }
}

std::vector<WatchedNames::Target> WatchedNames::ParseTargets(const std::vector<std::string>& keys) {
  std::vector<Target> targets;
  for (const std::string& key : keys) {
    Target target;
    target.name = key;
    const size_t colon = key.find(':');
    const auto stage = base::ParseInt(std::string_view(key).substr(0, colon));
    if (colon != std::string::npos && stage && *stage >= 0 && *stage < INT32_MAX) {
      target.stage = static_cast<int32_t>(*stage);
      target.name = key.substr(colon + 1);
    }
    target.is_pattern = target.name.find_first_of("*?") != std::string::npos;
    targets.push_back(std::move(target));
  }
  return targets;
}

std::string WatchedNames::Squashed(std::string_view full_name) const {
  return std::string(squash_ ? SquashName(full_name, rules_) : full_name);
}

std::string WatchedNames::TakeFree(int32_t stage, std::string_view full_name,
                                   std::string_view squashed, Taken& taken) {
  std::string reported = Reported(stage, squashed);
  if (taken.contains(reported)) {
    reported = Reported(stage, full_name);
  }
  taken.insert(reported);
  return reported;
}

std::optional<std::string> WatchedNames::OfParameter(int32_t stage, std::string_view full_name) {
  const std::string squashed = Squashed(full_name);
  const bool wanted = std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
    if (target.stage && *target.stage != stage) {
      return false;
    }
    // A squashed name is looked at only where the stage is named, or it were ambiguous.
    for (const std::string_view name : {full_name, std::string_view(squashed)}) {
      const bool matches = target.is_pattern ? base::GlobMatch(target.name, name) ||
                                                   base::GlobMatch(target.name + ".*", name)
                                             : IsWholePrefix(target.name, name);
      if (matches && (name.data() == full_name.data() || target.stage)) {
        return true;
      }
    }
    return false;
  });
  return wanted ? std::optional(TakeFree(stage, full_name, squashed, parameters_)) : std::nullopt;
}

std::optional<std::string> WatchedNames::OfModule(int32_t stage, std::string_view full_name) {
  return Module(stage, full_name, targets_, every_module_, modules_);
}

std::optional<std::string> WatchedNames::OfFeatureModule(FeatureHook hook, int32_t stage,
                                                         std::string_view full_name) {
  FeatureModules& modules = features_[static_cast<size_t>(hook)];
  if (!modules.is_recorded) {
    return std::nullopt;
  }
  return Module(stage, full_name, modules.targets, modules.targets.empty(), modules.taken);
}

std::optional<std::string> WatchedNames::Module(int32_t stage, std::string_view full_name,
                                                const std::vector<Target>& targets, bool takes_all,
                                                Taken& taken) const {
  const std::string squashed = Squashed(full_name);
  if (takes_all) {
    return TakeFree(stage, full_name, squashed, taken);
  }
  for (const Target& target : targets) {
    if (target.stage && *target.stage != stage) {
      continue;
    }
    if (!target.is_pattern && (target.name == squashed || target.name == full_name)) {
      return TakeFree(stage, full_name, target.name, taken);
    }
    if (target.is_pattern &&
        (base::GlobMatch(target.name, squashed) || base::GlobMatch(target.name, full_name))) {
      return TakeFree(stage, full_name, squashed, taken);
    }
  }
  return std::nullopt;
}

void WatchedNames::Forget() {
  parameters_.clear();
  modules_.clear();
  for (FeatureModules& modules : features_) {
    modules.taken.clear();
  }
}

namespace {

constexpr uint64_t kLargestConfig = uint64_t{16} << 20U;
constexpr std::string_view kSwitch = "dynamic_on";

// Floats keep the spelling of the file.
void WriteAsSpelled(const json::Config& config, const json::Json& value, json::Writer& writer) {
  if (value.is_object()) {
    writer.Object([&] {
      for (const auto& [key, member] : value.items()) {
        writer.Key(key);
        WriteAsSpelled(config, member, writer);
      }
    });
  } else if (value.is_array()) {
    writer.Array(value, [&](const json::Json& item) { WriteAsSpelled(config, item, writer); });
  } else if (value.is_number_float()) {
    writer.Raw(config.SpellingOf(value));
  } else {
    json::WriteDocument(value, writer);
  }
}

// The same document with "dynamic_on": false, as Python writes it with indent 2. Fails where it has
// comments, which would be lost.
Result<std::string> SwitchedOff(const std::string& text) {
  MSP_RETURN_IF_ERROR(json::ParseDocument(text).status());
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::ParseJsonConfig(text, "the configuration"));
  if (!config.root().is_object()) {
    return BadFormatError("not an object of keys");
  }
  std::string out;
  json::Writer writer(out, 2);
  writer.Object([&] {
    for (const auto& [key, value] : config.root().items()) {
      writer.Key(key);
      key == kSwitch ? writer.Bool(false) : WriteAsSpelled(config, value, writer);
    }
  });
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
  // Settings that a running monitor cannot change.
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
