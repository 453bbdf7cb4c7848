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

// The sections of these are other programs' business; their task cannot be captured.
inline constexpr std::array<std::string_view, 6> kForeignTasks = {
    "free_benchmark", "run_ut", "grad_probe", "acc_check", "exception_dump", "monitor"};

// Of the whole file, or of the arguments of a call, which hold no sections.
Status CheckTopLevelKeys(const SettingsReader& reader, const json::ConfigValue& root,
                         bool sections_allowed);

// Of the section of `task`; none may stand in `root` as well.
Status CheckSectionKeys(const SettingsReader& reader, const json::ConfigValue& section,
                        const json::ConfigValue& root, Task task);

// Where to write: a folder, or a place where one can be made. Empty where it is not given.
Status ReadDumpPath(const SettingsReader& reader, std::string& dump_path);

}  // namespace msprobe::capture
