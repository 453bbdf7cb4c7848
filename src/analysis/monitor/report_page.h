// One run, or two laid over each other, as a page for browsers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/run.h"

namespace msprobe::monitor {

struct ReportOptions {
  std::filesystem::path run;
  std::filesystem::path other;  // empty: one run
  std::filesystem::path output = "report.html";
  ReadOptions read;  // which part of both
  // Of the file. Statistics that do not fit are left out, the least telling first, with a warning
  // that stands in the page, too.
  uint64_t most_bytes = 64'000'000;
};

struct ReportOutcome {
  // Of the first run.
  uint64_t series = 0;
  uint64_t ranks = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  // Of both.
  uint64_t rows = 0;
  uint64_t alerts = 0;
  uint64_t non_finite = 0;  // numbers
  std::vector<std::string> warnings;
  uint64_t size_bytes = 0;
};

// kUnsupported when this program was built without the page.
Result<ReportOutcome> WriteReport(const ReportOptions& options);

}  // namespace msprobe::monitor
