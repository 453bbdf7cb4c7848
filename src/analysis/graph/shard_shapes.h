// Inside of the room: along which dimension the parts of merged tensors lie beside each other.
#pragma once

#include "src/analysis/graph/merged_dump.h"

namespace msprobe::analysis::graph {

// Fills MergedContent::shapes of the rows that MergeTensorShards just joined. Parameters, inputs
// and outputs of ColumnParallelLinear, RowParallelLinear and VocabParallelEmbedding are divided as
// these layers work; with sequence parallelism, which their inputs and outputs show, so is what
// stands between them. Other calls pass a dimension on where they keep the shape, reshape, permute
// or cut along another one. What remains has no shape of the whole.
void JoinTensorShapes(MergedModel& whole);

// The same behind MergeSequenceParts. Which dimension is the sequence is told by an embedding,
// which is given [batch, sequence].
void JoinSequenceShapes(MergedModel& whole);

}  // namespace msprobe::analysis::graph
