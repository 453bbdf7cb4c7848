// The pages of graphs: one file for browsers with the trees of all ranks, both sides beside each
// other, or the same parts one by one for `serve`. docs/formats/graph_page.md is their layout. Two
// sources fill it: the views of a run (graph_page.cpp) and a .vis.db (stored_graph.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "src/analysis/compare/side.h"
#include "src/analysis/graph/graph.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::graph {

// How the columns express a node's result in numbers.

// Bits of a node's code: its standing, its figure and its level of overflow.
inline constexpr uint32_t kFigureShift = 4;
inline constexpr uint32_t kLevelShift = 8;
inline constexpr int kErrorBits = 12;  // of the fraction of errors, which are looked at by size

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

// The parts "g<rank>" and "g<rank>_...": the tree of one side, the root first, a value per node.
struct TreeSide {
  std::vector<std::string_view> names;  // of the bench side empty where it is the partner's
  std::vector<uint32_t> parents;        // place + 1; 0: the root
  std::vector<uint32_t> places;         // among the children of its parent
  std::vector<uint32_t> types;
  std::vector<uint32_t> micro_steps;  // + 1; 0: none
  std::vector<uint32_t> stacks;       // in PageTree::stacks
};

struct PageTree {
  explicit PageTree(size_t npu_nodes);

  TreeSide npu;
  std::optional<TreeSide> bench;
  StackList stacks;
  int64_t micro_steps = 1;
  // By node of the NPU side.
  std::vector<uint32_t> matches;  // place on the bench side + 1; 0: none
  std::vector<uint32_t> codes;    // standing, figure and level
  std::vector<uint32_t> input_errors, output_errors;
  report::CellCodes cells;  // of the errors
  // In words, of the nodes where there is something to say.
  std::map<uint32_t, std::pair<std::string, std::string>> origins;  // kind, sentence
  std::map<uint32_t, std::string> npu_unmatched, bench_unmatched;
  std::function<void(json::Writer&)> write_partners;  // members: who a node communicates with
  std::function<void(json::Writer&)> write_counts;    // further members; may be empty

  std::vector<report::PageBlock> Blocks(const std::string& id) &&;
  void WriteTranslations(json::Writer& writer) const;
};

// The parts "g<rank>_tensors" and its columns: tensors and arguments of both sides, node after
// node.
class PageTensors {
 public:
  static constexpr std::array<std::string_view, 4> kWords = {"label", "dtype", "shape", "sum"};
  static constexpr size_t kFields = kWords.size() + compare::kStatCount;
  struct Side {
    std::vector<uint32_t> row_counts;                   // by node
    std::array<std::vector<uint32_t>, kFields> fields;  // words and statistics, by row
    std::vector<uint32_t> errors;                       // relative; of the NPU side

    size_t rows() const { return fields[0].size(); }
  };

  PageTensors() { words_.Add(""); }  // number 0: none

  // `name` loses the name of its node.
  void AddWords(Side& side, std::string_view node, std::string_view name,
                const std::array<std::string_view, 3>& others);
  report::CellCodes& cells() { return cells_; }

  std::vector<report::PageBlock> Blocks(const std::string& id, Side npu,
                                        std::optional<Side> bench) &&;

 private:
  report::TextList words_;
  report::CellCodes cells_;
};

// A rank as the part "run" lists it, and as the table msprobe_rank of a .vis.db holds it.
struct ListedRank {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t nodes = 0;
  int64_t bench_nodes = 0;
  // The result of `compare`; empty where it is not known.
  std::string verdict, first_node, title, npu_path, bench_path;
  bool is_leading = false;  // to look at first
  bool has_tensors = true;
};
std::vector<ListedRank> ListRanks(const Answer& answer);

struct PageListing {
  bool is_comparison = false;
  std::string_view task;
  std::string_view verdict;  // the worst of the ranks' verdicts; empty: unknown
  std::vector<std::string> notes;
  std::string_view compare_page;   // a page in the same folder, or empty
  const Answer* counts = nullptr;  // what it counted of each rank; null: pages count themselves

  std::string Text(const std::vector<ListedRank>& ranks) const;
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

  // A part of the page, as it stands in the file.
  struct Elements {
    std::vector<std::string> texts;
    uint64_t bytes = 0;
  };
  // What the page holds of a rank, as far as one rank can tell.
  struct Rank {
    Elements tree;
    Elements tensors;
    bool parts = false;  // the runs part there
    int64_t step = 0;
  };

  // `view`: by the rules of 26.x.
  void Add(const RankView& view);
  // Both halves of Add, for ranks that another process has looked at.
  static Rank MakeRank(const RankView& view, base::ThreadPool& pool);
  void Take(Rank rank);

  Status Write(const std::filesystem::path& path, const Answer& answer);
  const std::vector<std::string>& notes() const { return notes_; }  // after Write

 private:
  // The order in which ranks keep their tensors: those in which the runs diverge first, by step.
  using Place = std::tuple<bool, int64_t, size_t>;

  void AddTree(Elements tree);
  bool HasRoomFor(const Place& place) const;
  void AddTensors(const Place& place, Elements tensors);

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
