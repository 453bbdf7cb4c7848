// Ranks that share a model by tensor and pipeline parallelism, made into the dump that one rank
// would have written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

// kUsage when the sizes contradict each other or the number of ranks.
Status CheckParallelism(const Parallelism& sizes, size_t rank_folders);

// What the parameters of the merged dump tell.
enum class MergedParameters : uint8_t {
  kOfFirstRank,  // as the Python tool exports them
  kMerged,
};

// `ranks`: the folders of all ranks of a step, by number. Writes dump.json, construct.json and
// stack.json of every data-parallel group to target/rank<g>, whole or not at all, and returns these
// folders. Statistics of tensor-parallel ranks that differ become those of the whole (largest,
// smallest, average, root of the sum of squares; each entry's "parallel_merge_info" tells how),
// pipeline stages become one model with layers numbered through.
Result<std::vector<std::filesystem::path>> MergeRanks(
    const std::vector<std::filesystem::path>& ranks, const Parallelism& sizes,
    MergedParameters parameters, const std::filesystem::path& target,
    std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
