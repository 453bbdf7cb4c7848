#include "src/analysis/graph/divergence.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/graph/scores.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

using compare::CompareMode;

compare::Options CompareOptionsOf(const Options& options) {
  compare::Options compared;
  compared.npu_path = options.npu_path;
  compared.bench_path = options.bench_path;
  compared.fuzzy = options.fuzzy;
  compared.layer_mapping = options.layer_mapping;
  compared.threads = options.threads;
  compared.quiet = options.quiet;
  return compared;
}

// The names of the folders say which step and rank it is, as they do for `compare`.
compare::PairInput InputOf(const LoadedRank& rank) {
  compare::PairInput input = {rank.npu->side().json_path, rank.bench->side().json_path, {}, {}};
  const dump::RankFolder names = dump::NumberByNames(input.npu_json.parent_path());
  input.step = names.step;
  input.rank = names.rank;
  return input;
}

struct RankWalk {
  Status status;
  compare::StepRecord record;
  std::vector<std::string> warnings;
};

RankWalk WalkRank(const compare::Options& options, LoadedRank& rank,
                  const compare::StepRecord* previous, base::ThreadPool& pool) {
  RankWalk walk;
  compare::PlannedPair planned;
  planned.input = InputOf(rank);
  if (previous != nullptr &&
      !(previous->step && planned.input.step && *previous->step + 1 == *planned.input.step)) {
    previous = nullptr;
  }
  compare::ComparedPair pair;
  pair.npu = std::move(rank.npu->side());
  pair.bench = std::move(rank.bench->side());
  pair.stack = std::move(rank.npu->stacks());
  pair.construct = std::move(rank.npu->construct());
  walk.status = compare::CompareLoaded(options, planned.input, pool, previous, pair);
  if (walk.status.ok()) {
    KeepReadTensors(pair.result, pair.npu.rows.size(), rank.tensors);
    rank.comparison = compare::SummarizePair(planned, pair);
    walk.record = std::move(pair.record);
    walk.warnings = std::move(pair.warnings);
  }
  rank.npu->side() = std::move(pair.npu);
  rank.bench->side() = std::move(pair.bench);
  rank.npu->stacks() = *std::move(pair.stack);
  rank.npu->construct() = *std::move(pair.construct);
  return walk;
}

}  // namespace

void DivergenceWalks::Take(LoadedStep& step, const Options& options, base::ThreadPool& pool) {
  // Merged statistics are estimates: what rounding explains of them nobody knows.
  if (options.bench_path.empty() || options.npu_parallelism || step.ranks.empty() ||
      !step.ranks.front().mode) {
    return;
  }
  const compare::Options compared = CompareOptionsOf(options);
  std::vector<RankWalk> walks(step.ranks.size());
  const auto take = [&](size_t place, base::ThreadPool& threads) {
    LoadedRank& rank = step.ranks[place];
    const auto before = records_.find(rank.folders.rank);
    walks[place] =
        WalkRank(compared, rank, before == records_.end() ? nullptr : &before->second, threads);
  };
  if (step.ranks.front().mode == CompareMode::kRealData) {
    for (size_t place = 0; place < walks.size(); ++place) {
      take(place, pool);
    }
  } else {
    pool.ParallelFor(walks.size(), [&](size_t place, size_t /*worker*/) {
      base::ThreadPool alone(1);
      take(place, alone);
    });
  }
  for (size_t place = 0; place < walks.size(); ++place) {
    const RankFolders& folders = step.ranks[place].folders;
    RankWalk& walk = walks[place];
    if (walk.status.ok()) {
      records_[folders.rank] = std::move(walk.record);
    } else {
      step.warnings.push_back(fmt::format("step {} rank {}: where the runs part is not told: {}",
                                          folders.step, folders.rank, walk.status.message()));
    }
    step.warnings.insert(step.warnings.end(), walk.warnings.begin(), walk.warnings.end());
  }
}

std::vector<NodeDivergence> DivergenceOf(const Graph& npu, const compare::PairSummary& comparison) {
  const compare::DivergenceReport& report = comparison.divergence;
  std::unordered_map<uint32_t, std::pair<std::string_view, const compare::DivergencePoint*>>
      origins;
  const auto add = [&origins](const std::optional<compare::DivergencePoint>& point,
                              std::string_view kind) {
    if (point) {
      origins.try_emplace(point->entry, kind, &*point);
    }
  };
  if (report.first_origin) {
    add(report.first_origin, compare::OriginKindName(report.first_origin->kind));
  }
  for (const std::optional<compare::DivergencePoint>& point : report.first_of_kind) {
    add(point, point ? compare::OriginKindName(point->kind) : std::string_view());
  }
  add(report.first_drift, "drift");
  add(report.first_unequal_bits, "first unequal");
  std::vector<NodeDivergence> nodes(npu.nodes.size());
  for (size_t index = 0; index < nodes.size(); ++index) {
    const uint32_t entry = npu.nodes[index].entry;
    if (entry == kNone || entry >= report.calls.size()) {
      continue;
    }
    NodeDivergence& node = nodes[index];
    const compare::CallStanding& call = report.calls[entry];
    node.standing = call.standing;
    if (call.standing != compare::RowStanding::kNotCompared) {
      node.input_error = call.input_error;
      node.output_error = call.output_error;
    }
    if (const auto origin = origins.find(entry); origin != origins.end()) {
      node.origin = origin->second.first;
      node.point = origin->second.second;
    }
  }
  return nodes;
}

std::string OriginText(const NodeDivergence& node) {
  return fmt::format("{}: {} ({} confidence)", node.origin, node.point->reason,
                     compare::ConfidenceName(node.point->confidence));
}

}  // namespace msprobe::analysis::graph
