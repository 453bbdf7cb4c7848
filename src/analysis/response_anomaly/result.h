// What a search for anomalous responses came to.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/response_anomaly/judge.h"
#include "src/analysis/response_anomaly/result_rows.h"

namespace msprobe::analysis::response_anomaly {

struct Findings {
  // However long the input is: so many ill requests and unreadable lines are named, the first ones.
  static constexpr size_t kMostNamed = 1000;

  uint64_t requests = 0;  // judged
  uint64_t tokens = 0;
  std::array<uint64_t, kIllnessCount> of = {};  // requests by Illness
  uint64_t unreadable = 0;                      // lines
  uint64_t by_categories = 0;                   // requests
  uint64_t unfinished = 0;  // of a known model, but without its end token: judged without table
  uint64_t only_minus_infinity = 0;  // ill because of -inf alone
  uint64_t short_repeats = 0;        // normal, though a detector of repetition fired
  std::vector<Row> ill;              // at most kMostNamed
  std::vector<Row> unread;           // the same
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  uint64_t bytes = 0;

  uint64_t ill_count() const { return requests - of[0]; }
};

}  // namespace msprobe::analysis::response_anomaly
