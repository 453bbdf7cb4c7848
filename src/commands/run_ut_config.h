// The configuration file of the accuracy checks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/online/endpoint.h"

namespace msprobe::commands {

// Where the operators of a running training come from.
struct OnlineConfig {
  online::Endpoint endpoint;
  std::vector<int64_t> ranks;
};

// A JSON file with the section `section` ("run_ut", "acc_check"), or a YAML file with the same keys
// at its top. What it sets replaces `options`.
// `online`: with is_online.
Status ReadRunUtConfig(const std::filesystem::path& path, std::string_view section,
                       analysis::accuracy::CheckOptions& options,
                       std::optional<OnlineConfig>& online);

}  // namespace msprobe::commands
