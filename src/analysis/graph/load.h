// The dumps of one step as they were recorded, of all ranks and both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_dump.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

using NameMapping = std::unordered_map<std::string_view, std::string_view>;  // NPU to bench

struct LoadedRank {
  RankFolders folders;
  std::optional<RankDump> npu;
  std::optional<RankDump> bench;             // of a comparison
  std::optional<compare::CompareMode> mode;  // of a comparison; none: of structures
  std::optional<NameMapping> mapping;        // where layers are paired by their place
  // What `compare` says of both sides (divergence.h), and the figures of their tensors; none: it
  // was not asked.
  std::optional<compare::PairSummary> comparison;
  std::vector<compare::RowResult> tensors;  // by row of the NPU side; empty but for real data
};

// Ranks of one step.
struct LoadedStep {
  std::vector<LoadedRank> ranks;  // those that could be read, by number; perhaps none
  Status first_error;             // why others could not; the warnings name them
  std::vector<std::string> warnings;

  uint64_t SizeBytes() const;
};

// `keep_entry`: as of RankDump::Load. kMismatch when the ranks of a comparison were dumped with
// different tasks: one result cannot hold figures of two kinds.
Result<LoadedStep> LoadStep(std::span<const RankFolders> folders, const Options& options,
                            const RankDump::KeepEntry& keep_entry, base::ThreadPool& pool);

// The error of ranks of different tasks in one step.
Status TasksDiffer(const LoadedRank& rank, const LoadedRank& other);

}  // namespace msprobe::analysis::graph
