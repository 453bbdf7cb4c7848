// What a comparison of profiles answers: the verdict, what the time consists of, and which part
// made the difference.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "src/analysis/perf/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::perf {

// Conditions such as "e2e>5%" (gates.h) stand beside it.
inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"slower", "a step that takes at least one percent longer, or whose time is not known",
      /*includes_previous=*/true, /*on_request=*/true}}};

// What is enough for a first look.
struct AnswerOptions {
  size_t top = 10;               // findings per pair of profiles
  double min_difference_us = 0;  // findings below are noise
};

report::Document MakeDocument(const RunSummary& run, const AnswerOptions& options);

// "SLOWER by 12.4 %, mostly computing: ..." of one pair; empty where no times are known.
std::string Headline(const RankSummary& rank);

}  // namespace msprobe::analysis::perf
