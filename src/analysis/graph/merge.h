// Ranks that share a model by tensor, context and pipeline parallelism, made into the dump that one
// rank would have written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

// What a merged dump is for.
enum class MergedFor : uint8_t {
  kExport,  // as the 26.x line exports it: parameters are those of the first rank, shapes of a part
  kGraph,   // parameters are merged; shapes are those of the whole, "local_shape" that of a part
};

struct MergedRanks {
  std::vector<std::filesystem::path> folders;  // of the data-parallel groups
  uint64_t expert_ranks = 1;                   // so many ranks have other experts each
};

// `ranks`: the folders of all ranks of a step, by number. Writes dump.json, construct.json and
// stack.json of every data-parallel group to target/rank<g>, whole or not at all. Statistics of
// tensor-parallel ranks that differ become those of the whole (largest, smallest, average, root of
// the sum of squares; each entry's "parallel_merge_info" tells how), and so do those of ranks that
// have parts of a sequence; pipeline stages become one model with layers numbered through. Calls
// between modules stay, each rank's for itself.
Result<MergedRanks> MergeRanks(const std::vector<std::filesystem::path>& ranks,
                               const Parallelism& sizes, MergedFor purpose,
                               const std::filesystem::path& target,
                               std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
