// From the dumps of a step to what its files hold: trees, matches, figures, partners across ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/step_record.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/base/threads.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {

// One rank of one step, ready to be written: the trees of both sides by the rules of one edition,
// and all that is known of their nodes.

struct SideView {
  const RankDump* dump = nullptr;
  Graph graph;
  std::vector<NodeScore> scores;  // one per node
  PartnersOfNodes partners;

  const std::vector<Partners>* PartnersOf(const Node& node) const;  // null: it has none
};

// The result of the walk of `compare` for a node.
struct NodeDivergence {
  compare::RowStatus standing = compare::RowStatus::kNotCompared;  // the worst of its rows
  std::optional<double> input_error;                               // relative; may be infinite
  std::optional<double> output_error;                              // both none: not compared
  // Where the runs part: "parameter", "input", "computation", "optimizer", "dtype", "unmatched
  // call"; also "drift" and "first unequal". Empty: not here.
  std::string_view origin;
  const compare::DivergencePoint* point = nullptr;  // of the origin
};

struct RankView {
  int64_t step = 0;
  int64_t rank = 0;
  SideView npu;
  std::optional<SideView> bench;
  std::optional<compare::CompareMode> mode;          // of a comparison; none: of structures
  std::optional<compare::PairResult> result;         // where values were compared
  const compare::PairSummary* comparison = nullptr;  // null: no walk was taken
  std::vector<NodeDivergence> divergence;  // by node of the NPU side; empty without a walk
};

// A thread formats so many nodes at a time.
inline constexpr size_t kBlockNodes = 64;

// Text of a file is written when there is so much of it.
inline constexpr size_t kFlushBytes = size_t{1} << 20U;

// "summary", "md5", "all", "structure".
std::string_view TaskName(std::optional<compare::CompareMode> mode);

// The classes of nodes by their figure: an object of colors, each with the range of its figures
// (empty: nodes without partner), a description, and for 26.x the name of its level.
void WriteColors(std::optional<compare::CompareMode> mode, Edition edition, json::Writer& json);

// The meaning of the comparison's columns, as the text of a JSON object.
std::string ToolTip(std::optional<compare::CompareMode> mode);

// Why a node has no partner among those of the other side, in a sentence.
std::string_view WhyUnmatched(const SideView& other, const Node& node);

// The names from the root down to a node's partner, as a JSON array.
void WriteMatchedLink(const Graph& other, uint32_t match, json::Writer& json);

// {"communications_type", "nodes_info": {"<rank>": ["<figure>", "<node>"]}}, or a list of these.
void WritePartners(const std::vector<Partners>& partners, json::Writer& json);

// The result of `compare` for the same dumps: its verdict on a rank, and the findings at every
// node.

// The walks of one run. Steps come in order: what a step leaves is what the next one of the same
// rank starts from.
class DivergenceWalks {
 public:
  // Finds the ranks of `step` that have values to walk through. The sides must be as they were
  // read, and stay so until Finish, and so must `step`; options are copied.
  void Begin(LoadedStep& step, const Options& options, base::ThreadPool& pool);
  // Items of work that are left for any thread: each is to be taken once, before Finish. Tensors
  // are read by all threads of the pool, so that such walks are taken in Begin.
  size_t count() const { return to_take_; }
  void Take(size_t item);
  // Returns the warnings; a rank that `compare` refuses is one.
  std::vector<std::string> Finish();

 private:
  struct RankWalk {
    Status status;
    compare::StepRecord record;
    std::vector<std::string> warnings;
  };

  void Walk(size_t place, base::ThreadPool& pool);

  LoadedStep* step_ = nullptr;
  compare::Options options_;
  std::vector<RankWalk> walks_;  // by rank of the step; empty: none is taken
  size_t to_take_ = 0;
  std::map<int64_t, compare::StepRecord> records_;  // of the last step, by rank
};

// By node; `comparison` must outlive it.
std::vector<NodeDivergence> DivergenceOf(const Graph& npu, const compare::PairSummary& comparison);

// "computation: <why> (confidence: high)"; of a node that is an origin.
std::string OriginText(const NodeDivergence& node);

// Work of others that any thread can do beside the making of trees: run(item), each item once.
struct WorkBeside {
  size_t count = 0;
  std::function<void(size_t item)> run;
};

// One view per rank by the rules of `edition`, without partners; the views borrow from `step`. The
// sides stay as they are until `beside`, which may take what the views tell of, is done.
Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        const WorkBeside& beside, base::ThreadPool& pool,
                                        std::vector<std::string>& warnings);

// The communications of a step, by rank.
struct StepCommunications {
  std::vector<RankCommunications> npu;
  std::vector<RankCommunications> bench;
};
// With `with_levels` their figures are levels of overflow.
Status AddCommunications(const std::vector<RankView>& views, bool with_levels,
                         StepCommunications& found);

struct StepPartners {
  std::optional<PartnerFinder> npu;  // none: no communication
  std::optional<PartnerFinder> bench;
};
StepPartners PartnersOf(StepCommunications found, Edition edition);
void SetPartners(const StepPartners& partners, base::ThreadPool& pool,
                 std::vector<RankView>& views);

}  // namespace msprobe::analysis::graph
