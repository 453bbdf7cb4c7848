#include "src/analysis/graph/step_views.h"

#include <utility>

#include "src/analysis/graph/build.h"
#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/divergence.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/scores.h"

namespace msprobe::analysis::graph {
namespace {

void BuildSide(const Options& options, const RankDump& dump, Edition edition, SideView& view,
               std::vector<std::string>& warnings) {
  BuildOptions build;
  build.edition = edition;
  build.collect = !options.merges();
  build.complete_stacks = options.complete_stacks || edition == Edition::k26;
  view.dump = &dump;
  view.graph = BuildGraph(dump, build, warnings);
  view.scores.resize(view.graph.nodes.size());
}

void JoinViews(const Options& options, const LoadedRank& rank, Edition edition, RankView& view) {
  const bool is_merged = options.npu_parallelism.has_value();
  view.step = rank.folders.step;
  view.rank = rank.folders.rank;
  view.mode = rank.mode;
  if (!rank.bench) {
    return;
  }
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

Status AddLevels(const LoadedRank& rank, RankView& view) {
  MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.npu, view.npu.graph, view.npu.scores));
  if (view.bench) {
    MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.bench, view.bench->graph, view.bench->scores));
  }
  return {};
}

}  // namespace

Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        const WorkBeside& beside, base::ThreadPool& pool,
                                        std::vector<std::string>& all_warnings) {
  std::vector<LoadedRank>& ranks = step.ranks;
  std::vector<RankView> views(ranks.size());
  std::vector<std::vector<std::string>> warnings(ranks.size() * 2);
  std::vector<Status> statuses(ranks.size());
  for (size_t place = 0; place < ranks.size(); ++place) {
    if (ranks[place].bench) {
      views[place].bench.emplace();
    }
  }
  pool.ParallelFor(beside.count + warnings.size(), [&](size_t item, size_t /*worker*/) {
    if (item < beside.count) {
      beside.run(item);
      return;
    }
    item -= beside.count;
    const LoadedRank& rank = ranks[item / 2];
    RankView& view = views[item / 2];
    if (item % 2 == 0) {
      BuildSide(options, *rank.npu, edition, view.npu, warnings[item]);
    } else if (rank.bench) {
      BuildSide(options, *rank.bench, edition, *view.bench, warnings[item]);
    }
  });
  pool.ParallelFor(warnings.size(), [&](size_t item, size_t /*worker*/) {
    std::optional<RankDump>& dump = item % 2 == 0 ? ranks[item / 2].npu : ranks[item / 2].bench;
    if (dump) {
      SetPlaces(dump->side(), edition);
    }
  });
  pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
    JoinViews(options, ranks[place], edition, views[place]);
  });
  for (const std::vector<std::string>& more : warnings) {
    all_warnings.insert(all_warnings.end(), more.begin(), more.end());
  }
  for (size_t place = 0; place < ranks.size(); ++place) {
    RankView& view = views[place];
    if (view.bench && view.mode) {
      view.result =
          CompareNodes(*ranks[place].npu, *ranks[place].bench, view.npu.graph, view.bench->graph,
                       {*view.mode, edition, options.npu_parallelism.has_value(), options.quiet},
                       ranks[place].tensors, pool);
      // So that the other edition need not read them again.
      KeepReadTensors(*view.result, view.result->rows.size(), ranks[place].tensors);
      view.npu.scores = ScoreNodes(*ranks[place].npu, view.npu.graph, *view.result, pool);
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
  return views;
}

Status AddCommunications(const std::vector<RankView>& views, bool with_levels,
                         StepCommunications& found) {
  for (const RankView& view : views) {
    const auto add = [&](const SideView& side, std::vector<RankCommunications>& ranks) -> Status {
      MSP_ASSIGN_OR_RETURN(
          RankCommunications calls,
          ReadCommunications(view.rank, *side.dump, side.graph, side.scores, with_levels));
      ranks.push_back(std::move(calls));
      return {};
    };
    MSP_RETURN_IF_ERROR(add(view.npu, found.npu));
    if (view.bench) {
      MSP_RETURN_IF_ERROR(add(*view.bench, found.bench));
    }
  }
  return {};
}

StepPartners PartnersOf(StepCommunications found, Edition edition) {
  StepPartners partners;
  partners.npu.emplace(std::move(found.npu), edition);
  partners.bench.emplace(std::move(found.bench), edition);
  return partners;
}

void SetPartners(const StepPartners& partners, base::ThreadPool& pool,
                 std::vector<RankView>& views) {
  if (!partners.npu) {
    return;
  }
  pool.ParallelFor(views.size(), [&](size_t place, size_t /*worker*/) {
    RankView& view = views[place];
    view.npu.partners = partners.npu->Of(view.rank);
    if (view.bench) {
      view.bench->partners = partners.bench->Of(view.rank);
    }
  });
}

}  // namespace msprobe::analysis::graph
