// The page of `graph --format html`: one file for browsers with the trees of all ranks, both sides
// beside each other. How its parts are laid out: docs/formats/graph_page.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/divergence.h"
#include "src/analysis/graph/graph.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::graph {

// How the page's columns say things in numbers (docs/formats/graph_page.md): for pages that hold
// their graphs, and for those that are served from a database.

// Bits of a node's code: how it stands, its figure and its level of overflow.
inline constexpr uint32_t kFigureShift = 4;
inline constexpr uint32_t kLevelShift = 8;
inline constexpr int kErrorBits = 12;  // of the fraction of errors, which are looked at by size

using Columns = report::PageColumns;

uint32_t StandingCode(compare::RowStatus standing);
// 1 pass, 2 warning, 3 error by the rules of 26.x; 0: none.
uint32_t FigureCode(const std::optional<double>& precision);
uint32_t LevelCode(std::string_view level);

// Stacks that repeat, each kept once as numbers of its lines.
class StackList {
 public:
  // 1 and up; 0: none. `lines`: of texts.
  template <typename Lines>
  uint32_t Add(const Lines& lines) {
    std::vector<uint32_t> frames;
    for (const auto& line : lines) {
      frames.push_back(lines_.Add(line));
    }
    return frames.empty() ? 0 : Number(std::move(frames));
  }

  // The members "frames" and "stacks".
  void Write(json::Writer& writer) const;

 private:
  uint32_t Number(std::vector<uint32_t> frames);

  report::TextList lines_;
  std::vector<std::vector<uint32_t>> stacks_;
  std::unordered_map<std::string, uint32_t> number_of_;  // by the numbers of the lines, as text
};

inline constexpr int64_t kGraphPageFormat = 1;  // what tools/web/graph expects

// Takes the views as they come. The trees of all ranks are kept, their tensors for those ranks to
// look at first, up to a size that a browser opens at once; the rest is reported in the page and in
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
