// One compared pair as the page of `compare --format html` takes it: its calls in execution order,
// and columns of its rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/analysis/compare/compare_pair.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Everything that the page shows of a pair, compressed: elements of the page, ready to be written.
struct PairColumns {
  std::vector<std::string> elements;
  uint64_t bytes = 0;  // of the elements
  uint64_t rows = 0;   // that are in them
};

// `id`: the first part of the names of its elements, such as "p3". Of more than `most_rows` rows
// whole calls are left out: first those that are equal, then those that agree, and of each the ones
// that happened last.
PairColumns MakePairColumns(const ComparedPair& pair, const std::string& id, uint64_t most_rows,
                            base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
