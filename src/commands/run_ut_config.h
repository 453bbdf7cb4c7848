// The configuration file of the accuracy checks.
#pragma once

#include <filesystem>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"

namespace msprobe::commands {

// A JSON file with the section `section` ("run_ut", "acc_check"), or a YAML file with the same keys
// at its top. What it sets replaces `options`.
Status ReadRunUtConfig(const std::filesystem::path& path, std::string_view section,
                       analysis::accuracy::CheckOptions& options);

}  // namespace msprobe::commands
