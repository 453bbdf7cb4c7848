#include "src/analysis/graph/merged_inputs.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/merge.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/base/processes.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/dump_file.h"

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
  uint64_t expert_ranks = 1;  // MergedRanks::expert_ranks
};

// `below`: where the folders of steps are made.
Result<MergedSide> MergeSide(const fs::path& path, const Parallelism& sizes, bool merges,
                             MergedFor purpose, const fs::path& below,
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
    if (merges) {
      MSP_ASSIGN_OR_RETURN(
          MergedRanks found,
          MergeRanks(folders, sizes, purpose, below / fmt::format("step{}", step), warnings));
      merged.folders = std::move(found.folders);
      side.expert_ranks = std::max(side.expert_ranks, found.expert_ranks);
    }
  }
  return side;
}

// What the first call with tensors was given: the statistics of its inputs. Empty: no call tells.
Result<std::string> FirstInputs(const fs::path& folder) {
  std::string text;
  Status failed;
  const auto scanned = dump::ScanEntries(
      folder / dump::kDumpFileName, [&](const dump::ScannedEntry& entry, const auto& /*so_far*/) {
        const Result<dump::EntryTree> tree = json::ParseValueTree(entry.text);
        if (!tree.ok()) {
          failed = tree.status();
          return false;
        }
        const uint32_t inputs = tree->Find(0, "input_args");
        for (uint32_t node = inputs; inputs != dump::EntryTree::kNone && node < (*tree)[inputs].end;
             ++node) {
          if (tree->Find(node, "dtype") == dump::EntryTree::kNone) {
            continue;
          }
          for (const std::string_view key : dump::kStatisticKeys) {
            const uint32_t value = tree->Find(node, key);
            const bool is_number =
                value != dump::EntryTree::kNone && ((*tree)[value].kind == dump::NodeKind::kInt ||
                                                    (*tree)[value].kind == dump::NodeKind::kFloat);
            // Merged statistics are floats where those of a rank may be integers.
            text += is_number ? base::PythonFloatRepr((*tree)[value].number) : "-";
            text += ' ';
          }
        }
        return text.empty();
      });
  MSP_RETURN_IF_ERROR(scanned.status());
  MSP_RETURN_IF_ERROR(std::move(failed));
  return text;
}

using GroupPair = std::pair<size_t, size_t>;  // places of the NPU and of the bench side

// Which data-parallel groups were fed the same. As many on both sides are one after the other.
Result<std::vector<GroupPair>> PairGroups(const MergedStep& npu, const MergedStep& bench,
                                          std::vector<std::string>& warnings) {
  std::vector<GroupPair> pairs;
  if (npu.folders.size() == bench.folders.size()) {
    for (size_t group = 0; group < npu.folders.size(); ++group) {
      pairs.emplace_back(group, group);
    }
    return pairs;
  }
  std::multimap<std::string, size_t> fed;
  for (size_t group = 0; group < bench.folders.size(); ++group) {
    MSP_ASSIGN_OR_RETURN(std::string inputs, FirstInputs(bench.folders[group]));
    if (!inputs.empty()) {
      fed.emplace(std::move(inputs), group);
    }
  }
  for (size_t group = 0; group < npu.folders.size(); ++group) {
    MSP_ASSIGN_OR_RETURN(const std::string inputs, FirstInputs(npu.folders[group]));
    if (const auto found = fed.find(inputs); found != fed.end()) {
      pairs.emplace_back(group, found->second);
      fed.erase(found);
    }
  }
  if (pairs.empty()) {
    return MismatchError(
               fmt::format("step {}: {} on the NPU side, {} on the bench side, and no two "
                           "of them were fed the same",
                           npu.step, base::Plural(npu.folders.size(), "model"),
                           base::Plural(bench.folders.size(), "model")))
        .WithHint(
            "give both runs the same global batch in the same order, so that at least the "
            "first data-parallel group sees the same samples; if ranks share a sequence, --cp "
            "says how many");
  }
  warnings.push_back(fmt::format(
      "step {}: {} on the NPU side, {} on the bench side; {} fed the same and compared", npu.step,
      base::Plural(npu.folders.size(), "model"), base::Plural(bench.folders.size(), "model"),
      pairs.size() == 1 ? "1 pair was" : fmt::format("{} pairs were", pairs.size())));
  return pairs;
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
  const MergedFor purpose = options.export_merged ? MergedFor::kExport : MergedFor::kGraph;
  MSP_ASSIGN_OR_RETURN(
      const MergedSide npu,
      MergeSide(options.npu_path, *options.npu_parallelism, options.merges(), purpose,
                options.export_merged ? below : below / "npu", plan.warnings));
  MergedSide bench;
  if (with_bench) {
    MSP_ASSIGN_OR_RETURN(
        bench, MergeSide(options.bench_path, *options.bench_parallelism, options.merges(), purpose,
                         below / "bench", plan.warnings));
  }
  if (with_bench && npu.expert_ranks != bench.expert_ranks) {
    plan.warnings.push_back(fmt::format(
        "experts are spread over {} of the NPU side and over {} of the bench side: experts of one "
        "name may be different ones, so that differences between them mean nothing",
        base::Plural(npu.expert_ranks, "rank"), base::Plural(bench.expert_ranks, "rank")));
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
    MSP_ASSIGN_OR_RETURN(const std::vector<GroupPair> pairs,
                         PairGroups(step, with_bench ? *other : step, plan.warnings));
    plan.has_ranks = plan.has_ranks || step.folders.size() > 1;
    for (const auto& [group, partner] : pairs) {
      plan.ranks.push_back({step.step, static_cast<int64_t>(group), step.folders[group],
                            with_bench ? other->folders[partner] : fs::path()});
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
