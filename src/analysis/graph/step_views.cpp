#include "src/analysis/graph/step_views.h"

#include <utility>

#include "src/analysis/graph/build.h"
#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/divergence.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/scores.h"

namespace msprobe::analysis::graph {
namespace {

void BuildView(const Options& options, LoadedRank& rank, Edition edition, RankView& view,
               std::vector<std::string>& warnings) {
  const bool is_merged = options.npu_parallelism.has_value();
  view.step = rank.folders.step;
  view.rank = rank.folders.rank;
  view.mode = rank.mode;
  SetPlaces(rank.npu->side(), edition);
  if (rank.bench) {
    SetPlaces(rank.bench->side(), edition);
  }
  BuildOptions build;
  build.edition = edition;
  build.complete_stacks = options.complete_stacks || edition == Edition::k26;
  view.npu.dump = &*rank.npu;
  view.npu.graph = BuildGraph(*rank.npu, build, warnings);
  view.npu.scores.resize(view.npu.graph.nodes.size());
  if (!rank.bench) {
    return;
  }
  view.bench.emplace();
  view.bench->dump = &*rank.bench;
  view.bench->graph = BuildGraph(*rank.bench, build, warnings);
  view.bench->scores.resize(view.bench->graph.nodes.size());
  MatchOptions match;
  match.edition = edition;
  match.fuzzy = options.fuzzy || is_merged;
  match.ignore_shapes = is_merged;
  match.mapping = rank.mapping ? &*rank.mapping : nullptr;
  MatchNodes(*rank.npu, *rank.bench, match, view.npu.graph, view.bench->graph);
  if (rank.comparison) {
    view.comparison = &*rank.comparison;
    view.divergence = DivergenceOf(view.npu.graph, *rank.comparison);
  }
}

// So that the other edition need not read them again.
void RememberTensors(const compare::PairResult& result, std::vector<compare::RowResult>& tensors) {
  if (result.mode != compare::CompareMode::kRealData) {
    return;
  }
  tensors.resize(result.rows.size());
  for (size_t row = 0; row < result.rows.size(); ++row) {
    const compare::RowResult& read = result.rows[row];
    if (read.metrics[compare::kMaxAbsErr].kind == compare::MetricKind::kNumber) {
      tensors[row].pair = read.pair;
      tensors[row].metrics = read.metrics;
      tensors[row].distance = read.distance;
    }
  }
}

Status AddLevels(const LoadedRank& rank, RankView& view) {
  MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.npu, view.npu.graph, view.npu.scores));
  if (view.bench) {
    MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.bench, view.bench->graph, view.bench->scores));
  }
  return {};
}

Status AddPartners(std::vector<RankView>& views, Edition edition) {
  if (views.size() < 2) {
    return {};
  }
  std::vector<RankGraph> npu;
  std::vector<RankGraph> bench;
  for (const RankView& view : views) {
    npu.push_back({view.rank, view.npu.dump, &view.npu.graph});
    if (view.bench) {
      bench.push_back({view.rank, view.bench->dump, &view.bench->graph});
    }
  }
  MSP_ASSIGN_OR_RETURN(std::vector<PartnersOfNodes> npu_partners, FindPartners(npu, edition));
  MSP_ASSIGN_OR_RETURN(std::vector<PartnersOfNodes> bench_partners, FindPartners(bench, edition));
  for (size_t place = 0; place < views.size(); ++place) {
    views[place].npu.partners = std::move(npu_partners[place]);
    if (views[place].bench) {
      views[place].bench->partners = std::move(bench_partners[place]);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        base::ThreadPool& pool,
                                        std::vector<std::string>& all_warnings) {
  std::vector<LoadedRank>& ranks = step.ranks;
  std::vector<RankView> views(ranks.size());
  std::vector<std::vector<std::string>> warnings(ranks.size());
  std::vector<Status> statuses(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
    BuildView(options, ranks[place], edition, views[place], warnings[place]);
  });
  for (size_t place = 0; place < ranks.size(); ++place) {
    RankView& view = views[place];
    all_warnings.insert(all_warnings.end(), warnings[place].begin(), warnings[place].end());
    if (view.bench && view.mode) {
      view.result =
          CompareNodes(*ranks[place].npu, *ranks[place].bench, view.npu.graph, view.bench->graph,
                       {*view.mode, edition, options.npu_parallelism.has_value(), options.quiet},
                       ranks[place].tensors, pool);
      RememberTensors(*view.result, ranks[place].tensors);
      view.npu.scores = ScoreNodes(*ranks[place].npu, view.npu.graph, *view.result);
    }
  }
  if (options.overflow_check) {
    pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
      statuses[place] = AddLevels(ranks[place], views[place]);
    });
  }
  for (Status& status : statuses) {
    MSP_RETURN_IF_ERROR(std::move(status));
  }
  MSP_RETURN_IF_ERROR(AddPartners(views, edition));
  return views;
}

}  // namespace msprobe::analysis::graph
