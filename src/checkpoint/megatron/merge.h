// One parameter from what the tensor ranks of a stage hold of it. Nothing is copied: pieces are
// placed. Merged tensors of a large model would not fit into memory beside each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/checkpoint/megatron/names.h"
#include "src/checkpoint/parameter.h"

namespace msprobe::checkpoint {

// What one tensor rank holds of a parameter.
struct RankPart {
  int64_t rank = 0;
  Parameter parameter;
};

struct MergedRanks {
  Parameter parameter;
  // Ranks whose copy is not close to the first rank's. Only for Sharding::kCopies.
  std::vector<int64_t> disagreeing;
  bool incomplete = false;  // parts of some rank are missing
};

// `parts` in order of rank, at least one; `ranks` is how many there should be. A part that cannot
// be read, or shapes that do not fit together, make the parameter's status not ok; missing parts
// give it a note. Copies are read and compared.
MergedRanks MergeTensorRanks(std::vector<RankPart> parts, int64_t ranks, Sharding sharding);

// |a - b| <= 1e-8 + 1e-5 * |b| for every element as float32, so NaN is close to nothing. Reads
// both, block by block. Views of different shape are not close.
bool AreClose(const TensorView& a, const TensorView& b);

// weight1 and weight2 of a layer of grouped experts, all experts of the rank in one matrix, as one
// parameter per expert: "P.experts.weight1" becomes "P.experts.local_experts.N.linear_fc1.weight".
// Empty when the name is another one, the shape cannot be divided, or there are more than 65,536.
std::vector<Parameter> SplitGroupedExperts(const Parameter& grouped, int64_t experts);

}  // namespace msprobe::checkpoint
