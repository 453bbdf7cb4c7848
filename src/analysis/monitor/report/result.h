// What the page shows, in figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msprobe::analysis::monitor {

struct ReportResult {
  // Of the first run.
  uint64_t series = 0;
  uint64_t ranks = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  // Of both.
  uint64_t rows = 0;
  uint64_t alerts = 0;
  uint64_t non_finite = 0;  // numbers
  size_t unread_files = 0;  // tables that are left out or end early
  std::vector<std::string> warnings;
  uint64_t size_bytes = 0;
};

}  // namespace msprobe::analysis::monitor
