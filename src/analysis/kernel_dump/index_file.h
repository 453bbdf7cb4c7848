// What was made of which file, as a table beside the arrays.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/result.h"

namespace msprobe::analysis::kernel_dump {

// <folder>/parse_index.csv: a row per tensor, buffer and record. Returns its path.
Result<std::filesystem::path> WriteIndex(const std::filesystem::path& folder,
                                         const Findings& findings);

// The names of files that failed, as the Python tool lists them in convert_failed_file_list.txt.
Result<std::filesystem::path> WriteFailedList(const std::filesystem::path& folder,
                                              const Findings& findings);

}  // namespace msprobe::analysis::kernel_dump
