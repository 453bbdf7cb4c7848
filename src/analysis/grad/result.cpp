#include "src/analysis/grad/result.h"

#include <algorithm>

namespace msprobe::analysis::grad {
namespace {

// Drops are measured between steps that were compared. An empty gradient says nothing.
std::optional<size_t> FirstMarked(const Row& row, const Options& options) {
  std::optional<double> before;
  for (size_t step = 0; step < row.steps.size(); ++step) {
    const std::optional<Agreement>& agreement = row.steps[step];
    if (!agreement || agreement->elements == 0) {
      continue;
    }
    const double similarity = agreement->similarity();
    if (before ? *before - similarity > options.max_drop : similarity < options.min_similarity) {
      return step;
    }
    before = similarity;
  }
  return std::nullopt;
}

}  // namespace

void Judge(RankComparison& rank, const Options& options) {
  rank.summary.name = "summary";
  rank.summary.steps.assign(rank.steps.size(), std::nullopt);
  for (Row& row : rank.parameters) {
    for (size_t step = 0; step < row.steps.size(); ++step) {
      if (!row.steps[step]) {
        continue;
      }
      std::optional<Agreement>& sum = rank.summary.steps[step];
      sum = sum.value_or(Agreement());
      sum->equal += row.steps[step]->equal;
      sum->elements += row.steps[step]->elements;
    }
    row.marked = row.is_rounding ? std::nullopt : FirstMarked(row, options);
  }
  rank.summary.marked = FirstMarked(rank.summary, options);
}

uint64_t ComparedPairs(const Comparison& comparison) {
  uint64_t pairs = 0;
  for (const RankComparison& rank : comparison.ranks) {
    for (const Row& row : rank.parameters) {
      pairs += static_cast<uint64_t>(
          std::count_if(row.steps.begin(), row.steps.end(),
                        [](const std::optional<Agreement>& step) { return step.has_value(); }));
    }
  }
  return pairs;
}

}  // namespace msprobe::analysis::grad
