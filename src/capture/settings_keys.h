// Inside of the room: which keys a configuration may hold, and where. Everything else is an error
// that names the nearest one. And the key that the configurations of all tasks have.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/capture/settings_names.h"
#include "src/json/config.h"
#include "src/json/settings_reader.h"

namespace msprobe::capture {

using json::SettingsReader;
using json::ShownValue;

// Sections that the capture leaves to those who read them; their task is none that it records.
inline constexpr std::array<std::string_view, 6> kForeignTasks = {
    "free_benchmark", "run_ut", "grad_probe", "acc_check", "exception_dump", "monitor"};

// A configuration file, and what the flags or the arguments of a call set above it.
struct GivenConfigs {
  json::Config file;
  json::Config overrides;
};

// Both are objects whose top-level keys are known; only the file may hold sections. Without a path
// the file is an empty object called `nameless_file` in messages.
Result<GivenConfigs> ReadGivenConfigs(const base::Path& config_path, std::string nameless_file,
                                      std::string_view overrides_json,
                                      std::string_view overrides_name);

// Of the section of `task`; none may stand in `root` as well.
Status CheckSectionKeys(const SettingsReader& reader, const json::ConfigValue& section,
                        const json::ConfigValue& root, Task task);

// Where to write: a folder, or a place where one can be made. Empty where it is not given.
Status ReadDumpPath(const SettingsReader& reader, std::string& dump_path);

}  // namespace msprobe::capture
