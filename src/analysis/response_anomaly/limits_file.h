// The thresholds of a search from a YAML file with the keys of the Python tool.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/response_anomaly/options.h"

namespace msprobe::analysis::response_anomaly {

// What a file does not say keeps its default. Errors name file, line, key and what is allowed.
Result<Limits> LoadLimits(const std::filesystem::path& path);
Result<Limits> ParseLimits(std::string_view text, std::string file_name);

}  // namespace msprobe::analysis::response_anomaly
