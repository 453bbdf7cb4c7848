// What `compare` says of the same dumps: its verdict of a rank, and what its walk found at every
// node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/analysis/compare/step_record.h"
#include "src/analysis/graph/load.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_view.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::graph {

// The walks of one run. Steps come in order: what a step leaves is what the next one of the same
// rank starts from.
class DivergenceWalks {
 public:
  // Sets LoadedRank::comparison and ::tensors of the ranks that have values. The sides must be as
  // they were read. A rank that `compare` refuses is a warning.
  void Take(LoadedStep& step, const Options& options, base::ThreadPool& pool);

 private:
  std::map<int64_t, compare::StepRecord> records_;  // of the last step, by rank
};

// By node; `comparison` must outlive it.
std::vector<NodeDivergence> DivergenceOf(const Graph& npu, const compare::PairSummary& comparison);

// "computation: <why> (high confidence)"; of a node that is an origin.
std::string OriginText(const NodeDivergence& node);

}  // namespace msprobe::analysis::graph
