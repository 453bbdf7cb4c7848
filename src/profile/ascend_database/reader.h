// The SQLite databases of Ascend's profilers (ascend_pytorch_profiler*.db,
// ascend_mindspore_profiler*.db, msmonitor*.db).
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/profile.h"

namespace msprobe::profile {

// Fills in what `needs` asks for, and warns about what is missing of it.
Result<Profile> ReadAscendDatabase(const std::filesystem::path& file, const Needs& needs);

// True for files that SQLite could have written, by their first bytes.
bool LooksLikeDatabase(const std::filesystem::path& file);

}  // namespace msprobe::profile
