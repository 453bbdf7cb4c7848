// Megatron's checkpoints, a folder mp_rank_* of model_optim_rng.pt for every
// rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/megatron/layout.h"

namespace msprobe::checkpoint {

// One parameter from what the tensor ranks of a stage hold of it. Nothing is copied: pieces are
// placed. Merged tensors of a large model would not fit into memory beside each other.

// The part of a parameter on one tensor rank.
struct RankPart {
  int64_t rank = 0;
  Parameter parameter;
};

struct MergedRanks {
  Parameter parameter;
  // Ranks whose copy is not close to the first rank's. Only of copies.
  std::vector<int64_t> disagreeing;
  bool incomplete = false;  // parts of some rank are missing
};

// `parts` in order of rank, at least one; `ranks` is how many there should be. A part that cannot
// be read, or shapes that do not fit together, make the parameter's status not ok; missing parts
// give it a note. Copies are read and compared.
MergedRanks MergeTensorRanks(std::vector<RankPart> parts, int64_t ranks,
                             const layout::Spread& spread);

// |a - b| <= 1e-8 + 1e-5 * |b| for every element as float32, so NaN is close to nothing. Reads
// both, block by block. Views of different shape are not close.
bool AreClose(const TensorView& a, const TensorView& b);

// weight1 and weight2 of a layer of grouped experts, all experts of the rank in one matrix, as one
// parameter per expert: "P.experts.weight1" becomes "P.experts.local_experts.N.linear_fc1.weight".
// Empty when the name is another one, the shape cannot be divided, or there are more than 65,536.
std::vector<Parameter> SplitGroupedExperts(const Parameter& grouped, int64_t experts);

// The parameters of the whole model, put together of what the ranks hold. Ranks that are missing
// are an error unless options.allow_missing_ranks.
Result<Checkpoint> OpenMegatron(const std::filesystem::path& folder, const Options& options);

// True where the folder, or the iteration folder its tracker names, has rank folders; also where
// the tracker leads nowhere, so that opening says what is wrong with it.
bool LooksLikeMegatron(const std::filesystem::path& folder);

}  // namespace msprobe::checkpoint
