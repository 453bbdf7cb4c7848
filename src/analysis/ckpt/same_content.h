// Parameters of two checkpoints that hold the same elements under other names: what a mapping can
// be made of, and what tells that two were exchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/ckpt/match.h"
#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// Looks among the parameters without a partner and those that differ from theirs. Of several with
// the same elements (norms of ones) the first goes with the first, if both sides have as many.
// Nothing beyond `most_bytes` of each side is read, the smallest parameters first. In order of the
// first checkpoint.
std::vector<SameContent> FindSameContent(const checkpoint::Checkpoint& a,
                                         const checkpoint::Checkpoint& b,
                                         const MatchedParameters& matched,
                                         std::span<const PairResult> results, uint64_t most_bytes,
                                         base::ThreadPool& pool);

// Rules for --mapping, a line each; names that a pattern cannot spell are left out.
std::string MappingDraft(std::span<const SameContent> same);

}  // namespace msprobe::analysis::ckpt
