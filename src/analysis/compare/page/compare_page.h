// The page of `compare --format html`: one file for browsers with the verdict, all pairs, and the
// rows of those that matter most.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/summary.h"
#include "src/base/threads.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::compare {

// A value of a statistic as the columns of pages hold it.
uint32_t StatCode(const StatValue& stat, report::CellCodes& cells);

// Takes the pairs as they come, in any order and from any thread, and keeps the rows of those to
// look at first, up to a size that a browser opens at once; the others are listed without rows.
// Which ones it keeps does not depend on the order in which they come. What is left out is reported
// in the page and in notes().
class ComparePage {
 public:
  static constexpr uint64_t kMostBytes = 5'000'000;  // of the file
  static constexpr uint64_t kMostRowsPerPair = 100'000;

  // The rows of a pair as another process made them.
  struct Part {
    bool is_left_out = false;           // they have no room, and so has no pair behind them
    std::vector<std::string> elements;  // of the page, compressed
    uint64_t rows = 0;                  // that are in them
  };

  // kUnsupported when this build was made without the page.
  static Status Available();

  // `index`: the pair's place in RunSummary::pairs. Thread-safe, as Take().
  void Add(size_t index, const PairSummary& summary, const ComparedPair& pair,
           base::ThreadPool& pool);
  void Take(size_t index, const PairSummary& summary, Part part);
  // What this page has of a pair, for another process; it is gone from here.
  std::optional<Part> GiveAway(size_t index, const PairSummary& summary);
  // Whether the rows of a pair cannot be among those that are kept.
  bool IsBeyond(size_t index, const PairSummary& summary);

  Status Write(const std::filesystem::path& path, const RunSummary& summary);
  const std::vector<std::string>& notes() const { return notes_; }  // after Write

 private:
  // Pairs that are not clean come first, by step; then origins of a rank's own.
  using Place = std::tuple<bool, int64_t, bool, bool, size_t>;
  static Place PlaceOf(size_t index, const PairSummary& summary);
  void Keep(const Place& place, Part part);

  std::string Listing(const RunSummary& summary, const std::string& graph_page) const;

  std::mutex mutex_;
  std::map<Place, Part> kept_;  // the most important first
  std::optional<Place> cut_;    // the first that has no room: nothing from it on is kept
  uint64_t kept_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace msprobe::analysis::compare
