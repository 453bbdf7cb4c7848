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

}  // namespace

void DivergenceWalks::Begin(LoadedStep& step, const Options& options, base::ThreadPool& pool) {
  step_ = &step;
  options_ = CompareOptionsOf(options);
  walks_.clear();
  to_take_ = 0;
  // Merged statistics are estimates: what rounding explains of them nobody knows.
  if (options.bench_path.empty() || options.npu_parallelism || step.ranks.empty() ||
      !step.ranks.front().mode) {
    return;
  }
  walks_.resize(step.ranks.size());
  if (step.ranks.front().mode != CompareMode::kRealData) {
    to_take_ = walks_.size();
    return;
  }
  for (size_t place = 0; place < walks_.size(); ++place) {
    Walk(place, pool);
  }
}

void DivergenceWalks::Take(size_t item) {
  base::ThreadPool alone(1);
  Walk(item, alone);
}

void DivergenceWalks::Walk(size_t place, base::ThreadPool& pool) {
  LoadedRank& rank = step_->ranks[place];
  RankWalk& walk = walks_[place];
  compare::PlannedPair planned;
  planned.input = InputOf(rank);
  const auto before = records_.find(rank.folders.rank);
  const bool follows = before != records_.end() && before->second.step && planned.input.step &&
                       *before->second.step + 1 == *planned.input.step;
  const compare::PairSides sides = {rank.npu->side(), rank.bench->side(), &rank.npu->stacks(),
                                    &rank.npu->construct()};
  compare::PairFindings findings;
  walk.status = compare::FindDifferences(options_, planned.input, sides, pool,
                                         follows ? &before->second : nullptr, findings);
  if (walk.status.ok()) {
    KeepReadTensors(findings.result, sides.npu.rows.size(), rank.tensors);
    rank.comparison = compare::SummarizePair(planned, sides.npu, sides.bench, findings);
    walk.record = std::move(findings.record);
    walk.warnings = std::move(findings.warnings);
  }
}

std::vector<std::string> DivergenceWalks::Finish() {
  std::vector<std::string> warnings;
  for (size_t place = 0; place < walks_.size(); ++place) {
    const RankFolders& folders = step_->ranks[place].folders;
    RankWalk& walk = walks_[place];
    if (walk.status.ok()) {
      records_[folders.rank] = std::move(walk.record);
    } else {
      warnings.push_back(fmt::format("step {} rank {}: where the runs part is not told: {}",
                                     folders.step, folders.rank, walk.status.message()));
    }
    warnings.insert(warnings.end(), walk.warnings.begin(), walk.warnings.end());
  }
  walks_.clear();
  to_take_ = 0;
  return warnings;
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
