// What a terminal shows below the table of times: what got slower or fatter, and which part did it.
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

// "E2E +12.3 ms (+8.1 %): +9.8 ms computing, ..." of one pair; empty where no times are known.
std::string Headline(const RankSummary& rank);

}  // namespace msprobe::analysis::perf
