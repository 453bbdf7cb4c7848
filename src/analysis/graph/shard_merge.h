// Inside of the room: models of which every rank computed a part, joined into the first of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/graph/merged_dump.h"

namespace msprobe::analysis::graph {

// Tensor-parallel ranks. Statistics that differ become those of the whole; between a
// ColumnParallelLinear and the next RowParallelLinear all do, but for what these layers share. A
// partial sum becomes what the reduction behind it made of all.
//
// `keeps_experts`: expert parallelism. What is below experts stays as the first rank recorded it,
// with a note: other ranks have other experts under the same names.
void MergeTensorShards(std::span<MergedModel> shards, bool keeps_experts,
                       std::vector<std::string>& warnings);

// Context-parallel ranks, which have parts of the samples. Gradients of parameters stay those of
// the first rank: they are partial sums, of which the statistics do not tell the sum.
void MergeSequenceParts(std::span<MergedModel> parts, bool keeps_experts,
                        std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
