// What a terminal shows: the verdict, what the time consists of, and which part made the
// difference.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/perf/run_summary.h"

namespace msprobe::analysis::perf {

struct AnswerOptions {
  size_t top = 10;               // findings per pair of profiles
  double min_difference_us = 0;  // findings below are noise
  size_t width = 100;
  bool color = false;
};

// No line begins with '|', which marks rows of the table. Texts of the profiles are made printable.
std::string RankedAnswer(const RunSummary& run, const AnswerOptions& options);

// "SLOWER by 12.4 %, mostly computing: ..." of one pair; empty where no times are known.
std::string Headline(const RankSummary& rank);

}  // namespace msprobe::analysis::perf
