// Which runs are shown, and how large their page may be.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/analysis/monitor/common/monitored_run.h"

namespace msprobe::analysis::monitor {

struct ReportOptions {
  std::filesystem::path run;
  std::filesystem::path other;  // empty: one run
  std::filesystem::path output = "report.html";
  ReadOptions read;  // which part of both
  // Of the file. Statistics that do not fit are left out, the least telling first, with a warning
  // that stands in the page, too.
  uint64_t most_bytes = 64'000'000;
};

}  // namespace msprobe::analysis::monitor
