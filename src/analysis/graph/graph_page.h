// The page of `graph --format html`: one file for browsers with the trees of all ranks, both sides
// beside each other. How its parts are laid out: docs/formats/graph_page.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/rank_view.h"
#include "src/analysis/graph/result.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

inline constexpr int64_t kGraphPageFormat = 1;  // what tools/web/graph expects

// Takes the views as they come. The trees of all ranks are kept, their tensors for those ranks to
// look at first, up to a size that a browser opens at once; the rest is told in the page and in
// notes().
class GraphPage {
 public:
  static constexpr uint64_t kMostBytes = 60'000'000;       // of the file
  static constexpr uint64_t kMostRowsPerRank = 1'000'000;  // tensors and arguments

  explicit GraphPage(base::ThreadPool& pool) : pool_(pool) {}

  // kUnsupported when this build was made without the page.
  static Status Available();
  // The page without data.
  static std::string_view Shell();

  // `view`: by the rules of 26.x.
  void Add(const RankView& view);

  Status Write(const std::filesystem::path& path, const Answer& answer);
  const std::vector<std::string>& notes() const { return notes_; }  // after Write

 private:
  // Of which ranks tensors are kept first: those in which the runs part, by step.
  using Place = std::tuple<bool, int64_t, size_t>;
  struct Elements {
    std::vector<std::string> texts;
    uint64_t bytes = 0;
  };

  std::string Listing(const Answer& answer, const std::string& compare_page) const;

  base::ThreadPool& pool_;
  size_t count_ = 0;
  std::vector<Elements> trees_;        // by rank, in the order of Answer::ranks
  std::map<Place, Elements> tensors_;  // the most important first
  std::vector<bool> has_tensors_;
  uint64_t tree_bytes_ = 0;
  uint64_t tensor_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace msprobe::analysis::graph
