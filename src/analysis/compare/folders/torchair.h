// Dumps of torchair: kernels of GE beside kernels of GE without fusion, or beside the calls of the
// FX graph that they were made of.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// The graph that torchair writes beside a dump of GE (dynamo_original_graph_<n>...txt, Protocol
// Buffers as text): which operators it has, and which tensor of the FX graph each output is.

// An output of the FX graph: "add-aten.add.Tensor", 0.
struct FxOutput {
  std::string call;  // empty: none
  size_t number = 0;
};

struct GeNode {
  std::vector<FxOutput> outputs;  // by the number of the output
};

// By the name of the operator as files have it: '/', '.', '\' and blanks are '_'.
using GeGraph = std::map<std::string, GeNode, std::less<>>;

// Beyond this many levels or operators a text is refused.
inline constexpr size_t kDeepestGeGraph = 64;
inline constexpr size_t kMostGeNodes = 10'000'000;

// Adds the operators of a text to `graph`. What is not known is skipped. kBadFormat with the line
// for a text that ends inside of a block or a quoted word.
Status ReadGeGraph(std::string_view text, GeGraph& graph);

// The operators whose names make up `fused`, the longest known name first; nothing when a part of
// it is not a known name.
std::vector<const GeNode*> SplitFused(const GeGraph& graph, std::string_view fused,
                                      std::vector<std::string>* names = nullptr);

// options.npu_path is a dump of GE with the text of its graph, options.bench_path one of GE or FX;
// ranks that both have, or options.v26->torchair_rank. A table per rank, rows in the order of
// time, inputs before outputs. Kernels that have no partner are counted. kMismatch when no rank has
// a row.
//
// A fused kernel's name is made of the names of the operators that it stands for: its inputs are
// those of the first, its outputs those of the last. A Cast or TransData that the graph does not
// have is held against itself, output against input.
//
// Metrics of flattened float32 tensors, a of the reference and b under test; small: |a| <= 2^-23
//   cosine in float64 with 10 digits; 1 where both are zeros
//   relative errors |b/a - 1|, 0 where a is small, and absolute errors |b - a|; largest and mean
//   KL divergence of the softmax of a from that of b, at least 0
//   relative distance sqrt(sum (b - a)^2 / sum a^2), 0 where all of a is small
// Absolute errors where a is small count here and not in the Python tool.
Result<FolderComparison> CompareTorchair(const Options& options, base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
