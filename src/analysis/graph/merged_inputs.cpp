#include "src/analysis/graph/merged_inputs.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/merge.h"
#include "src/base/interrupt.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

namespace fs = std::filesystem;

struct MergedStep {
  int64_t step = 0;
  std::vector<fs::path> folders;  // of data-parallel groups
};

struct MergedSide {
  std::vector<MergedStep> steps;
  bool has_steps = false;
};

// `below`: where the folders of steps are made.
Result<MergedSide> MergeSide(const fs::path& path, const Parallelism& sizes,
                             MergedParameters parameters, const fs::path& below,
                             std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const InputPlan inputs, FindInputs(path, {}));
  std::map<int64_t, std::vector<fs::path>> ranks;
  for (const RankFolders& rank : inputs.ranks) {
    ranks[rank.step].push_back(rank.npu);
  }
  MergedSide side;
  side.has_steps = inputs.has_steps;
  for (const auto& [step, folders] : ranks) {
    MSP_RETURN_IF_ERROR(CheckParallelism(sizes, folders.size()));
    MergedStep& merged = side.steps.emplace_back();
    merged.step = step;
    merged.folders = folders;
    if (sizes.is_parallel()) {
      MSP_ASSIGN_OR_RETURN(
          merged.folders,
          MergeRanks(folders, sizes, parameters, below / fmt::format("step{}", step), warnings));
    }
  }
  return side;
}

}  // namespace

TemporaryFolder::TemporaryFolder(fs::path path)
    : path_(std::move(path)), slot_(base::RemoveOnInterrupt(path_.string())) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  base::ForgetOnInterrupt(slot_);
}

Result<MergedInputs> MergeInputs(const Options& options, const fs::path& below) {
  MergedInputs inputs;
  InputPlan& plan = inputs.plan;
  const bool with_bench = !options.bench_path.empty();
  const MergedParameters parameters =
      options.export_merged ? MergedParameters::kOfFirstRank : MergedParameters::kMerged;
  MSP_ASSIGN_OR_RETURN(const MergedSide npu,
                       MergeSide(options.npu_path, *options.npu_parallelism, parameters,
                                 options.export_merged ? below : below / "npu", plan.warnings));
  MergedSide bench;
  if (with_bench) {
    MSP_ASSIGN_OR_RETURN(bench, MergeSide(options.bench_path, *options.bench_parallelism,
                                          parameters, below / "bench", plan.warnings));
  }
  plan.has_steps = npu.has_steps || bench.has_steps;
  for (const MergedStep& step : npu.steps) {
    const auto other =
        std::find_if(bench.steps.begin(), bench.steps.end(),
                     [&step](const MergedStep& found) { return found.step == step.step; });
    if (with_bench && other == bench.steps.end()) {
      plan.warnings.push_back(
          fmt::format("step {} is left out: the bench side has none", step.step));
      continue;
    }
    if (with_bench && other->folders.size() != step.folders.size()) {
      return MismatchError(fmt::format("step {}: {} models on the NPU side, {} on the bench side",
                                       step.step, step.folders.size(), other->folders.size()))
          .WithHint("both sides need the same number of data-parallel groups");
    }
    plan.has_ranks = plan.has_ranks || step.folders.size() > 1;
    for (size_t group = 0; group < step.folders.size(); ++group) {
      plan.ranks.push_back({step.step, static_cast<int64_t>(group), step.folders[group],
                            with_bench ? other->folders[group] : fs::path()});
    }
    if (options.export_merged) {
      for (const fs::path& folder : step.folders) {
        inputs.exported.push_back(folder / dump::kDumpFileName);
      }
    }
  }
  if (plan.ranks.empty()) {
    return MismatchError("both sides have no step in common");
  }
  return inputs;
}

}  // namespace msprobe::analysis::graph
