// The page of `compare --format html`: one file for browsers with the verdict, all pairs, and the
// rows of those that matter most.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/summary.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// One compared pair as the page of `compare --format html` takes it: its calls in execution order,
// and columns of its rows.

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

// Takes the pairs as they come and keeps the rows of those to look at first, up to a size that a
// browser opens at once; the others are listed without rows. What is left out is reported in the
// page and in notes().
class ComparePage {
 public:
  static constexpr uint64_t kMostBytes = 5'000'000;  // of the file
  static constexpr uint64_t kMostRowsPerPair = 100'000;

  explicit ComparePage(base::ThreadPool& pool) : pool_(pool) {}

  // kUnsupported when this build was made without the page.
  static Status Available();

  // `index`: the pair's place in RunSummary::pairs.
  void Add(size_t index, const PairSummary& summary, const ComparedPair& pair);

  Status Write(const std::filesystem::path& path, const RunSummary& summary);
  const std::vector<std::string>& notes() const { return notes_; }  // after Write

 private:
  // Pairs that are not clean come first, by step; then origins of a rank's own.
  using Place = std::tuple<bool, int64_t, bool, bool, size_t>;

  std::string Listing(const RunSummary& summary, const std::string& graph_page) const;

  base::ThreadPool& pool_;
  std::map<Place, PairColumns> kept_;  // the most important first
  uint64_t kept_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace msprobe::analysis::compare
