// One rank of one step, ready to be written: the trees of both sides by the rules of one edition,
// and all that is known of their nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_dump.h"
#include "src/analysis/graph/scores.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {

struct SideView {
  const RankDump* dump = nullptr;
  Graph graph;
  std::vector<NodeScore> scores;  // one per node
  PartnersOfNodes partners;

  const std::vector<Partners>* PartnersOf(const Node& node) const;  // null: it has none
};

// What the walk of `compare` says of a node.
struct NodeDivergence {
  compare::RowStanding standing = compare::RowStanding::kNotCompared;  // the worst of its rows
  std::optional<double> input_error;                                   // relative; may be infinite
  std::optional<double> output_error;                                  // both none: not compared
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

// A class of nodes by their figure.
struct ColorClass {
  std::string_view color;
  std::optional<std::pair<double, double>> range;  // none: nodes without partner
  std::string_view description;
  std::string_view level;  // 26.x: "pass", "warning", "error", "unmatched node"
};
std::vector<ColorClass> ColorsOf(std::optional<compare::CompareMode> mode, Edition edition);

// What the columns of the comparison mean, as the text of a JSON object.
std::string ToolTip(std::optional<compare::CompareMode> mode);

// Why a node has no partner among those of the other side, in a sentence.
std::string_view WhyUnmatched(const SideView& other, const Node& node);

// Of a node: the names from the root down to its partner; a JSON array.
void WriteMatchedLink(const Graph& other, uint32_t match, json::Writer& json);

// {"communications_type", "nodes_info": {"<rank>": ["<figure>", "<node>"]}}, or a list of these.
void WritePartners(const std::vector<Partners>& partners, json::Writer& json);

}  // namespace msprobe::analysis::graph
