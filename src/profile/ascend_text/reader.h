// Inside of the room: what Ascend's profilers write as text: trace_view.json and the csv and JSON
// files beside it. Both readers fill in what `needs` asks for, and warn about what is missing of
// it.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/profile.h"

namespace msprobe::profile {

// trace_view.json alone: no csv is looked for beside it.
Result<Profile> ReadAscendTrace(const std::filesystem::path& file, const Needs& needs);

// `output` holds trace_view.json and the csv files (ASCEND_PROFILER_OUTPUT, or a folder like it);
// `root` is where profiler_info and profiler_metadata stand.
Result<Profile> ReadAscendText(const std::filesystem::path& root,
                               const std::filesystem::path& output, const Needs& needs);

}  // namespace msprobe::profile
