// Inside of the room: one reader per kind of profile; find_profiles.cpp chooses. All fill in what
// `needs` asks for, and warn about what is missing of it.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/profile.h"

namespace msprobe::profile {

// A PyTorch trace of a GPU, plain or compressed.
Result<Profile> ReadGpuTrace(const std::filesystem::path& file, const Needs& needs);

// Ascend's trace_view.json alone: no csv is looked for beside it.
Result<Profile> ReadAscendTrace(const std::filesystem::path& file, const Needs& needs);

// `output` holds trace_view.json and the csv files (ASCEND_PROFILER_OUTPUT, or a folder like it);
// `root` is where profiler_info and profiler_metadata stand.
Result<Profile> ReadAscendText(const std::filesystem::path& root,
                               const std::filesystem::path& output, const Needs& needs);

// An ascend_pytorch_profiler*.db, ascend_mindspore_profiler*.db or msmonitor*.db.
Result<Profile> ReadAscendDatabase(const std::filesystem::path& file, const Needs& needs);

// True for files that SQLite could have written, by their first bytes.
bool LooksLikeDatabase(const std::filesystem::path& file);

}  // namespace msprobe::profile
