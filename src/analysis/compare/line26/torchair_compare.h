// Dumps of torchair: kernels of GE beside kernels of GE without fusion, or beside the calls of the
// FX graph that they were made of.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// options.npu_path is a dump of GE with the text of its graph, options.bench_path one of GE or FX;
// ranks that both have, or options.line26->torchair_rank. A table per rank, rows in the order of
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
