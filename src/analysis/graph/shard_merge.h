// Joins models of which every rank computed a part into the first of them: statistics of the whole
// from those of the parts, and where the parts lie in it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/graph/merged_dump.h"

namespace msprobe::analysis::graph {

// Along which dimension the parts of merged tensors lie beside each other.

// Fills MergedContent::shapes of the rows that MergeTensorShards just joined. Parameters, inputs
// and outputs of ColumnParallelLinear, RowParallelLinear and VocabParallelEmbedding are divided as
// these layers work; with sequence parallelism, which their inputs and outputs show, so is what
// lies between them. Other calls pass a dimension on where they keep the shape, reshape, permute
// or cut along another one. What remains has no shape of the whole.
void JoinTensorShapes(MergedModel& whole);

// The same after MergeSequenceParts. An embedding, which takes [batch, sequence], shows which
// dimension is the sequence.
void JoinSequenceShapes(MergedModel& whole);

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
