// The parts of the graph page (graph_page.h) out of a .vis.db, each when it is asked for: a rank is
// read when it is looked at. The file may come from this program or from the 26.x line and is not
// trusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/graph_page.h"
#include "src/database/sqlite_file.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::graph {

// The bytes of each part by its name, as the page has them before they are packed.
using PageParts = std::map<std::string, std::string, std::less<>>;

class StoredGraph {
 public:
  // Larger ones are refused.
  static constexpr int64_t kMostNodes = 4'000'000;   // of one side of a rank
  static constexpr int64_t kMostRanks = 100'000;     // of all steps
  static constexpr uint64_t kMostRows = 20'000'000;  // tensors and arguments, of one side of a rank

  using Rank = ListedRank;

  // kBadFormat for what is not a graph, or one that was cut.
  static Result<StoredGraph> Open(base::InputFile input);

  bool is_comparison() const { return is_comparison_; }
  const std::vector<Rank>& ranks() const { return ranks_; }  // by step, then rank
  std::string_view verdict() const;  // the worst of the ranks' verdicts; empty: unknown
  const Rank* leading() const;       // of a comparison: to look at first; null: none

  // The part "run". `compare_page`: a page in the same folder, or empty.
  std::string Listing(std::string_view compare_page) const;
  // The parts "g<rank>" and "g<rank>_...": trees, findings and stacks of both sides.
  Result<PageParts> Tree(size_t rank) const;
  // "g<rank>_tensors" and its columns. The relative error of a tensor is not in a database: that
  // column holds nothing.
  Result<PageParts> Tensors(size_t rank) const;

 private:
  explicit StoredGraph(database::SqliteFile file) : file_(std::move(file)) {}
  Status ReadConfig();
  Status ReadRanks();
  Status ReadVerdicts();

  database::SqliteFile file_;
  bool is_comparison_ = false;
  std::string task_;
  int64_t micro_steps_ = 1;
  std::vector<int64_t> rank_numbers_, step_numbers_;
  std::vector<Rank> ranks_;
};

// Makes the parts of blocks. Large ones take memory once more: those of one rank at a time.
PageParts PartsOf(const std::vector<report::PageBlock>& blocks);

}  // namespace msprobe::analysis::graph
