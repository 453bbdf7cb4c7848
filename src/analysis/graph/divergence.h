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
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

// The walks of one run. Steps come in order: what a step leaves is what the next one of the same
// rank starts from.
class DivergenceWalks {
 public:
  // Which ranks of `step` have values to walk through. The sides must be as they were read, and
  // stay so until Finish, and so must `step`; options are copied.
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

// "computation: <why> (high confidence)"; of a node that is an origin.
std::string OriginText(const NodeDivergence& node);

}  // namespace msprobe::analysis::graph
