// What was made of which file, as a table beside the arrays.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/result.h"

namespace msprobe::analysis::kernel_dump {

// <folder>/parse_index.csv: a row per tensor, buffer and record. Returns its path.
Result<std::filesystem::path> WriteIndex(const std::filesystem::path& folder,
                                         const Findings& findings);

// <folder>/convert_failed_file_list.txt: a line per file that could not be converted whole, its
// path and what of it failed, ",input:0,output:1". Returns its path.
Result<std::filesystem::path> WriteFailedList(const std::filesystem::path& folder,
                                              const Findings& findings);

}  // namespace msprobe::analysis::kernel_dump
