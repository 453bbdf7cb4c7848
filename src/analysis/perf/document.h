// What a comparison of profiles answers: the verdict, what the time consists of, and which part
// made the difference.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include "src/analysis/perf/perf.h"
#include "src/report/document.h"

namespace msprobe::analysis::perf {

// A new file in `folder`, named as the workbooks of the run with that `stamp` are.
std::filesystem::path PagePath(const std::filesystem::path& folder, const std::string& stamp,
                               const RunSummary& run);

// Conditions such as "e2e>5%" (perf.h) stand beside it.
inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"slower", "a step that takes at least one percent longer, or whose time is not known",
      /*includes_previous=*/true, /*on_request=*/true}}};

// What is enough for a first look.
struct AnswerOptions {
  size_t top = 10;               // findings per pair of profiles
  double min_difference_us = 0;  // findings below are noise
  bool page = false;             // with what a page shows
};

// Its page tells what the time of both sides consists of, and what grew as a tree down to kernels.
// With many ranks, the one whose time grew most is analysed in detail; all are listed.
report::Document MakeDocument(const RunSummary& run, const AnswerOptions& options);

// "SLOWER by 12.4 %, mostly computing: ..." of one pair; empty where no times are known.
std::string Headline(const RankSummary& rank);

}  // namespace msprobe::analysis::perf
