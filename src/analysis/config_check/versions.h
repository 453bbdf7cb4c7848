// Inside of the room: versions that no Python package tells: CANN, drivers, CUDA.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/analysis/config_check/environment.h"

namespace msprobe::analysis::config_check::internal {

// What the pack calls it, and the version. Only what was found.
using Versions = std::vector<std::pair<std::string, std::string>>;

// "cann", "ascend_driver", "ascend_firmware", "nvidia_driver", "cuda", "architecture". `root` is
// put in front of the fixed places ("/usr/local/Ascend/driver/version.info"), not of those that
// the environment names.
Versions FindVersions(const Environment& environment, const std::filesystem::path& root = "/");

// The value of the first key that the text has, in lines "key=value", case aside. Of
// "[7.1:CANN-8.0]" what follows the last colon.
std::string ParseVersion(std::string_view text, std::string_view key);

// JSON object, the pack's member "versions", which the Python tool passes over.
std::string WriteVersions(const Versions& versions);

}  // namespace msprobe::analysis::config_check::internal
