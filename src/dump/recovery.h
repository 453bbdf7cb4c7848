// `msprobe dump recover`: completes a rank folder whose process was killed.
#pragma once

#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {

// Beginning and end of the names that files have until they are whole.
inline constexpr std::string_view kUnfinishedBegin = ".msprobe-";
inline constexpr std::string_view kUnfinishedEnd = ".tmp";

struct Recovery {
  bool nothing_recorded = false;  // the log ended in its header, and is gone
  LogConversion conversion;
  uint64_t removed_files = 0;  // that were being written when the process ended
  uint64_t named_files = 0;    // tensor files that the entries name, each once
  uint64_t missing_files = 0;  // of those
  std::string first_missing;
};

// Makes the JSON files out of the log, which stays, removes unfinished files and looks for the
// tensor files that are named. An error when the log cannot be read, or when a living process of
// this host still writes it.
Result<Recovery> RecoverRankFolder(const base::Path& rank_folder);

}  // namespace msprobe::dump
