// Inside of the room: the small facts that Ascend's profilers keep in JSON beside the trace. Files
// that are missing or damaged are told as warnings, or are errors when `strict`.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/profile.h"

namespace msprobe::profile {

// communication.json: what each step sent, in file order. The file lists every collective, so it
// can be large; only the totals are kept.
Status ReadBandwidth(const std::filesystem::path& folder, bool strict, Profile& profile);

// profiler_metadata.json: what groups of ranks are for ("tp", "dp"). Its absence is no fault.
Status ReadGroupNames(const std::filesystem::path& folder, bool strict, Profile& profile);

}  // namespace msprobe::profile
