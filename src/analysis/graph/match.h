// Pairs the nodes of two graphs, compares their rows and rates each node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

struct MatchOptions {
  Edition edition = Edition::kV26;
  bool ignore_shapes = false;
  bool fuzzy = false;  // calls below matched modules pair by their order, whatever their numbers
  // The bench call beside each NPU call; null: no mapping. Others keep their own names.
  const std::unordered_map<std::string_view, std::string_view>* mapping = nullptr;
};

// Sets Node::match on both sides, and the micro steps of the bench nodes after those of the NPU
// side. Without a mapping nodes of equal names match where the names above them are equal too; by
// the rules of 8.1.1 the types and shapes of their values must be equal as well.
void MatchNodes(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
                Graph& npu, Graph& bench);

// How far apart matched nodes are: the comparison of their rows, and the figure that colours them.

// The comparison that the task of both dumps allows; nullopt: the structure alone. kMismatch when
// they differ.
Result<std::optional<compare::CompareMode>> ModeOf(const compare::Side& npu,
                                                   const compare::Side& bench);

struct ScoreOptions {
  compare::CompareMode mode = compare::CompareMode::kStatistics;
  Edition edition = Edition::kV26;
  bool ignore_shapes = false;
  bool quiet = false;
};

struct NodeScore {
  // 8.1.1: 0 good to 1 bad; of checksums 1 equal and 0 different. 26.x: 0 pass, 0.5 warning, 1
  // error.
  std::optional<double> precision;
  bool sums_differ = false;  // a checksum does
  std::string_view level;    // of overflow: "medium", "high", "critical"; empty: none, or not asked
};

// Ranks given as arguments (src, dst, ...) are places in 26.x, texts that are not compared, and
// numbers in 8.1.1. Turns those of a side into what `edition` takes them for.
void SetPlaces(compare::Side& side, Edition edition);

// Pairs the rows of matched nodes by position within inputs, parameters, outputs and gradients, and
// compares them. Rows of the result stand beside those of the NPU side. Appends a row to `bench`
// for surplus rows of the NPU side to stand beside. `known`: by row of the NPU side, metrics of
// tensors that need not be read again; those of other bench rows are left alone.
compare::PairResult CompareNodes(const RankDump& npu_dump, RankDump& bench_dump, const Graph& npu,
                                 const Graph& bench, const ScoreOptions& options,
                                 std::span<const compare::RowResult> known, base::ThreadPool& pool);

// Keeps in `known` what `result` holds of tensors that were read; npu_rows: of the NPU side. Those
// that could not be are read again: the reason belongs to their row. Nothing but for real data.
void KeepReadTensors(const compare::PairResult& result, size_t npu_rows,
                     std::vector<compare::RowResult>& known);

// By node of the NPU side. `result` must be that of CompareNodes with the same edition.
std::vector<NodeScore> ScoreNodes(const RankDump& npu_dump, const Graph& npu,
                                  const compare::PairResult& result, base::ThreadPool& pool);

// Sets the levels of one side's nodes.
Status JudgeOverflow(const RankDump& dump, const Graph& graph, std::vector<NodeScore>& scores);

}  // namespace msprobe::analysis::graph
