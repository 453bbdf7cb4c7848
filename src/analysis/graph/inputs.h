// Finds the folders of both sides that are compared, and loads the dumps of a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

struct RankFolders {
  int64_t step = 0;
  int64_t rank = 0;
  std::filesystem::path npu;
  std::filesystem::path bench;  // empty: build only
};

struct InputPlan {
  std::vector<RankFolders> ranks;     // by step, then rank
  bool has_steps = false;             // the paths name whole dumps
  bool has_ranks = false;             // or steps
  std::vector<std::string> npu_only;  // folders without a partner, which are left out
  std::vector<std::string> bench_only;
  std::vector<std::string> warnings;  // these, too
};

// A path is the folder of a rank, of a step (rank<N>, or a sole "rank" or "proc<pid>") or of a
// whole dump (step<N>); both sides are of the same kind. Steps and ranks that only one side has are
// left out with a warning. kNotFound when nothing is left, or when a folder is not of these kinds.
Result<InputPlan> FindInputs(const std::filesystem::path& npu, const std::filesystem::path& bench);

// The dumps of one step as they were recorded, of all ranks and both sides.

using NameMapping = std::unordered_map<std::string_view, std::string_view>;  // NPU to bench

struct LoadedRank {
  RankFolders folders;
  std::optional<RankDump> npu;
  std::optional<RankDump> bench;             // of a comparison
  std::optional<compare::CompareMode> mode;  // of a comparison; none: of structures
  std::optional<NameMapping> mapping;        // where layers are paired by their place
  // The result of `compare` for both sides (step_views.h), and the figures of their tensors; none:
  // it was not run.
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
