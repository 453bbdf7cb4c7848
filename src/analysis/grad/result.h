// What a comparison of two runs' gradient directions came to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/grad/options.h"

namespace msprobe::analysis::grad {

// The signs of one parameter's gradient at one step, or of all.
struct Agreement {
  uint64_t equal = 0;
  uint64_t elements = 0;

  // 0 of no elements.
  double similarity() const {
    return elements == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(elements);
  }
};

// One row of similarities.csv: an agreement per step of the rank, none where the parameter could
// not be compared.
struct Row {
  std::string name;
  std::vector<std::optional<Agreement>> steps;
  std::optional<size_t> marked = {};  // the first step (by position) that stands out
  // Nothing but rounding in every step, as the gradient of a bias in front of a softmax or of a
  // normalisation: its signs are chance, and never stand out.
  bool is_rounding = false;
};

struct RankComparison {
  int64_t rank = 0;
  std::vector<int64_t> steps;
  std::vector<Row> parameters;  // in the order of the run's own table
  Row summary;                  // all parameters together
  std::filesystem::path file;
};

struct Comparison {
  std::vector<RankComparison> ranks;
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  Options options;
  uint64_t bytes = 0;
  size_t failed = 0;  // gradients that could not be compared
};

// Sums the parameters up, and marks the first step of every row that stands out.
void Judge(RankComparison& rank, const Options& options);

// Pairs of gradients of all ranks that could be compared.
uint64_t ComparedPairs(const Comparison& comparison);

}  // namespace msprobe::analysis::grad
