// Configurations in TOML, as trees like those of config.h. Its own header: it concerns one reader,
// where config.h concerns most of the program.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/json/config.h"

namespace msprobe::json {

// At most 256 KB; dates and times, and what nests too deeply, are errors with their line.
Result<Config> LoadTomlConfig(const std::filesystem::path& path);
Result<Config> ParseTomlConfig(std::string_view text, std::string file_name);

}  // namespace msprobe::json
