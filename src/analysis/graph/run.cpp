#include "src/analysis/graph/run.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/compare/layer_mapping.h"
#include "src/analysis/graph/build.h"
#include "src/analysis/graph/database.h"
#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/merge.h"
#include "src/analysis/graph/rank_view.h"
#include "src/analysis/graph/vis_file.h"
#include "src/base/files.h"
#include "src/base/interrupt.h"
#include "src/base/output_rule.h"
#include "src/base/partial_file.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/thread_pool.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

using Clock = std::chrono::steady_clock;
using NameMapping = std::unordered_map<std::string_view, std::string_view>;

struct LoadedRank {
  RankFolders folders;
  std::optional<RankDump> npu;
  std::optional<RankDump> bench;
  std::optional<compare::CompareMode> mode;
  std::optional<NameMapping> mapping;
  std::vector<std::string> warnings;
};

// A folder that is there as long as the run.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path)
      : path_(std::move(path)), slot_(base::RemoveOnInterrupt(path_.string())) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    base::ForgetOnInterrupt(slot_);
  }

 private:
  const std::filesystem::path path_;
  const int slot_;
};

class GraphRun {
 public:
  explicit GraphRun(const Options& options) : options_(options), pool_(options.threads) {
    answer_.is_comparison = !options.bench_path.empty();
  }

  Result<Answer> Run() {
    const Clock::time_point start = Clock::now();
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    if (options_.npu_parallelism) {
      MSP_ASSIGN_OR_RETURN(stamp_, base::RunStamp::Take(options_.output, base::TimestampNow()));
      MSP_RETURN_IF_ERROR(MergeInputs());
    } else {
      MSP_ASSIGN_OR_RETURN(plan_, FindInputs(options_.npu_path, options_.bench_path));
      MSP_ASSIGN_OR_RETURN(stamp_, base::RunStamp::Take(options_.output, base::TimestampNow()));
    }
    AppendTo(answer_.warnings, plan_.warnings);
    if (writes_database()) {
      MSP_RETURN_IF_ERROR(OpenDatabase());
    }
    for (size_t first = 0; first < plan_.ranks.size();) {
      size_t end = first;
      while (end < plan_.ranks.size() && plan_.ranks[end].step == plan_.ranks[first].step) {
        ++end;
      }
      MSP_RETURN_IF_ERROR(RunStep({plan_.ranks.data() + first, end - first}));
      first = end;
    }
    if (database_) {
      MSP_RETURN_IF_ERROR(FinishDatabase());
    }
    answer_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return std::move(answer_);
  }

 private:
  bool writes_database() const { return options_.write_database && !options_.export_merged; }
  bool writes_vis() const { return options_.write_vis && !options_.export_merged; }

  bool is_merged() const { return options_.npu_parallelism.has_value(); }

  struct MergedStep {
    int64_t step = 0;
    std::vector<std::filesystem::path> folders;  // of data-parallel groups
  };

  // One model per data-parallel group. `below`: where the folders of steps are made.
  Result<std::vector<MergedStep>> MergeSide(const std::filesystem::path& path,
                                            const Parallelism& sizes,
                                            const std::filesystem::path& below) {
    MSP_ASSIGN_OR_RETURN(const InputPlan inputs, FindInputs(path, {}));
    std::map<int64_t, std::vector<std::filesystem::path>> ranks;
    for (const RankFolders& rank : inputs.ranks) {
      ranks[rank.step].push_back(rank.npu);
    }
    plan_.has_steps = plan_.has_steps || inputs.has_steps;
    std::vector<MergedStep> steps;
    for (const auto& [step, folders] : ranks) {
      MSP_RETURN_IF_ERROR(CheckParallelism(sizes, folders.size()));
      MergedStep& merged = steps.emplace_back();
      merged.step = step;
      merged.folders = folders;
      if (sizes.is_parallel()) {
        const MergedParameters parameters =
            options_.export_merged ? MergedParameters::kOfFirstRank : MergedParameters::kMerged;
        MSP_ASSIGN_OR_RETURN(merged.folders,
                             MergeRanks(folders, sizes, parameters,
                                        below / fmt::format("step{}", step), answer_.warnings));
      }
    }
    return steps;
  }

  Status MergeInputs() {
    const std::filesystem::path below =
        options_.export_merged ? options_.output : options_.output / (".merged_" + stamp_.text());
    if (!options_.export_merged) {
      merged_.emplace(below);
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<MergedStep> npu,
                         MergeSide(options_.npu_path, *options_.npu_parallelism,
                                   options_.export_merged ? below : below / "npu"));
    std::vector<MergedStep> bench;
    if (answer_.is_comparison) {
      MSP_ASSIGN_OR_RETURN(
          bench, MergeSide(options_.bench_path, *options_.bench_parallelism, below / "bench"));
    }
    for (const MergedStep& step : npu) {
      const auto other = std::find_if(bench.begin(), bench.end(), [&step](const MergedStep& found) {
        return found.step == step.step;
      });
      if (answer_.is_comparison && other == bench.end()) {
        plan_.warnings.push_back(
            fmt::format("step {} is left out: the bench side has none", step.step));
        continue;
      }
      if (answer_.is_comparison && other->folders.size() != step.folders.size()) {
        return MismatchError(fmt::format("step {}: {} models on the NPU side, {} on the bench side",
                                         step.step, step.folders.size(), other->folders.size()))
            .WithHint("both sides need the same number of data-parallel groups");
      }
      plan_.has_ranks = plan_.has_ranks || step.folders.size() > 1;
      for (size_t group = 0; group < step.folders.size(); ++group) {
        plan_.ranks.push_back(
            {step.step, static_cast<int64_t>(group), step.folders[group],
             answer_.is_comparison ? other->folders[group] : std::filesystem::path()});
      }
      if (options_.export_merged) {
        for (const std::filesystem::path& folder : step.folders) {
          answer_.files.push_back(folder / dump::kDumpFileName);
        }
      }
    }
    return plan_.ranks.empty() ? MismatchError("both sides have no step in common") : Status();
  }

  std::string Kind() const { return answer_.is_comparison ? "compare" : "build"; }

  Status OpenDatabase() {
    database_path_ = options_.output / fmt::format("{}_{}.vis.db", Kind(), stamp_.text());
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(database_path_));
    partial_.emplace(options_.output /
                     fmt::format(".{}.{}.partial", database_path_.filename().string(), ::getpid()));
    MSP_RETURN_IF_ERROR(partial_->Create());
    MSP_ASSIGN_OR_RETURN(database_, Database::Create(partial_->path()));
    return {};
  }

  Status FinishDatabase() {
    DatabaseConfig config;
    config.is_comparison = answer_.is_comparison;
    config.mode = answer_.mode;
    config.micro_steps = micro_steps_;
    config.overflow_check = options_.overflow_check;
    config.ranks.assign(ranks_.begin(), ranks_.end());
    config.steps.assign(steps_.begin(), steps_.end());
    MSP_RETURN_IF_ERROR(database_->Finish(config));
    MSP_RETURN_IF_ERROR(partial_->RenameTo(database_path_));
    answer_.files.push_back(database_path_);
    return {};
  }

  Status RunStep(std::span<const RankFolders> folders) {
    MSP_ASSIGN_OR_RETURN(std::vector<LoadedRank> ranks, LoadStep(folders));
    // The pairs by the rules of 26.x hold nearly all of those of 8.1.1, so that its tensors are
    // read for both.
    std::vector<RankView> views26;
    if (writes_database() || answer_.is_comparison || !writes_vis()) {
      MSP_ASSIGN_OR_RETURN(views26, MakeViews(ranks, Edition::k26, {}));
      for (const RankView& view : views26) {
        if (database_) {
          MSP_RETURN_IF_ERROR(database_->Add(view, views26, options_.overflow_check));
        }
      }
    }
    std::vector<RankView> views8;
    if (writes_vis()) {
      MSP_ASSIGN_OR_RETURN(views8, MakeViews(ranks, Edition::k8, views26));
      MSP_RETURN_IF_ERROR(WriteVisFiles(views8));
    }
    for (const RankView& view : views26.empty() ? views8 : views26) {
      answer_.ranks.push_back(Summarize(view));
      ranks_.insert(view.rank);
      steps_.insert(view.step);
      micro_steps_ = std::max(micro_steps_, view.npu.graph.micro_step_count);
    }
    return {};
  }

  Result<std::vector<LoadedRank>> LoadStep(std::span<const RankFolders> folders) {
    std::vector<LoadedRank> loaded(folders.size());
    std::vector<Status> statuses(folders.size());
    base::Progress progress("reading", folders.size(), "ranks", options_.quiet);
    pool_.ParallelFor(folders.size(), [&](size_t place, size_t /*worker*/) {
      loaded[place].folders = folders[place];
      statuses[place] = LoadRank(loaded[place]);
      progress.Add();
    });
    std::vector<LoadedRank> ranks;
    Status first_error;
    for (size_t place = 0; place < loaded.size(); ++place) {
      LoadedRank& rank = loaded[place];
      answer_.warnings.insert(answer_.warnings.end(), rank.warnings.begin(), rank.warnings.end());
      if (!statuses[place].ok()) {
        first_error = first_error.ok() ? statuses[place] : first_error;
        answer_.warnings.push_back(fmt::format("step {} rank {} is left out: {}", rank.folders.step,
                                               rank.folders.rank, statuses[place].message()));
        continue;
      }
      if (answer_.mode != rank.mode && !answer_.ranks.empty()) {
        return MismatchError("the ranks were dumped with different tasks");
      }
      answer_.mode = rank.mode;
      answer_.size_bytes += rank.npu->side().header.size_bytes;
      answer_.size_bytes += rank.bench ? rank.bench->side().header.size_bytes : 0;
      ranks.push_back(std::move(rank));
    }
    if (ranks.empty()) {
      return first_error;
    }
    answer_.incomplete = answer_.incomplete || !first_error.ok();
    return ranks;
  }

  Status LoadRank(LoadedRank& rank) const {
    MSP_ASSIGN_OR_RETURN(rank.npu, RankDump::Load(rank.folders.npu));
    AppendTo(rank.warnings, rank.npu->side().warnings);
    if (!answer_.is_comparison) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(rank.bench, RankDump::Load(rank.folders.bench));
    AppendTo(rank.warnings, rank.bench->side().warnings);
    MSP_ASSIGN_OR_RETURN(rank.mode, ModeOf(rank.npu->side(), rank.bench->side()));
    if (rank.npu->side().framework != rank.bench->side().framework &&
        !options_.layer_mapping.given) {
      return MismatchError(fmt::format("{} and {} were recorded with different frameworks",
                                       rank.folders.npu.string(), rank.folders.bench.string()))
          .WithHint("-lm pairs the layers of two frameworks");
    }
    if (options_.layer_mapping.given) {
      MapNames(rank);
    }
    return {};
  }

  static void AppendTo(std::vector<std::string>& all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  void MapNames(LoadedRank& rank) const {
    const compare::Side& npu = rank.npu->side();
    const compare::Side& bench = rank.bench->side();
    const auto partners = compare::PairEntriesByLayer(
        options_.layer_mapping.file, /*grouped_frames=*/false, npu, bench, rank.warnings);
    if (!partners.ok()) {
      rank.warnings.push_back("no layer mapping is used: " + partners.status().message());
      return;
    }
    rank.mapping.emplace();
    for (size_t entry = 0; entry < partners->size(); ++entry) {
      const uint32_t partner = (*partners)[entry];
      if (partner != compare::kNoPartnerEntry) {
        rank.mapping->emplace(npu.entries[entry].name, bench.entries[partner].name);
      }
    }
  }

  // `known`: the views of the other edition, or none.
  Result<std::vector<RankView>> MakeViews(std::vector<LoadedRank>& ranks, Edition edition,
                                          const std::vector<RankView>& known) {
    std::vector<RankView> views(ranks.size());
    std::vector<std::vector<std::string>> warnings(ranks.size());
    std::vector<Status> statuses(ranks.size());
    pool_.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
      BuildView(ranks[place], edition, views[place], warnings[place]);
    });
    for (size_t place = 0; place < ranks.size(); ++place) {
      RankView& view = views[place];
      AppendTo(answer_.warnings, warnings[place]);
      if (view.bench && view.mode) {
        const compare::PairResult* metrics =
            known.empty() || !known[place].result ? nullptr : &*known[place].result;
        view.result =
            CompareNodes(*ranks[place].npu, *ranks[place].bench, view.npu.graph, view.bench->graph,
                         {*view.mode, edition, is_merged(), options_.quiet}, metrics, pool_);
        view.npu.scores = ScoreNodes(*ranks[place].npu, view.npu.graph, *view.result);
      }
    }
    if (options_.overflow_check) {
      pool_.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
        statuses[place] = AddLevels(ranks[place], views[place]);
      });
    }
    for (Status& status : statuses) {
      MSP_RETURN_IF_ERROR(std::move(status));
    }
    MSP_RETURN_IF_ERROR(AddPartners(views, edition));
    return views;
  }

  void BuildView(LoadedRank& rank, Edition edition, RankView& view,
                 std::vector<std::string>& warnings) const {
    view.step = rank.folders.step;
    view.rank = rank.folders.rank;
    view.mode = rank.mode;
    SetPlaces(rank.npu->side(), edition);
    if (rank.bench) {
      SetPlaces(rank.bench->side(), edition);
    }
    BuildOptions build;
    build.edition = edition;
    build.complete_stacks = options_.complete_stacks || edition == Edition::k26;
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
    match.fuzzy = options_.fuzzy || is_merged();
    match.ignore_shapes = is_merged();
    match.mapping = rank.mapping ? &*rank.mapping : nullptr;
    MatchNodes(*rank.npu, *rank.bench, match, view.npu.graph, view.bench->graph);
  }

  static Status AddLevels(const LoadedRank& rank, RankView& view) {
    MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.npu, view.npu.graph, view.npu.scores));
    if (view.bench) {
      MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.bench, view.bench->graph, view.bench->scores));
    }
    return {};
  }

  static Status AddPartners(std::vector<RankView>& views, Edition edition) {
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

  std::filesystem::path VisPath(const RankView& view) const {
    std::string name = Kind();
    if (plan_.has_steps) {
      name += fmt::format("_step{}", view.step);
    }
    if (plan_.has_ranks || plan_.has_steps) {
      name += fmt::format("_rank{}", view.rank);
    }
    return options_.output / fmt::format("{}_{}.vis", name, stamp_.text());
  }

  Status WriteVisFiles(const std::vector<RankView>& views) {
    std::vector<Status> statuses(views.size());
    pool_.ParallelFor(views.size(), [&](size_t place, size_t /*worker*/) {
      statuses[place] =
          WriteVisFile(VisPath(views[place]), views[place], views, options_.overflow_check);
    });
    for (size_t place = 0; place < views.size(); ++place) {
      MSP_RETURN_IF_ERROR(std::move(statuses[place]));
      answer_.files.push_back(VisPath(views[place]));
    }
    return {};
  }

  static RankSummary Summarize(const RankView& view) {
    RankSummary summary;
    summary.step = view.step;
    summary.rank = view.rank;
    const Graph& graph = view.npu.graph;
    summary.nodes = graph.nodes.size();
    summary.bench_nodes = view.bench ? view.bench->graph.nodes.size() : 0;
    for (const uint32_t index : graph.PostOrder()) {
      const Node& node = graph.nodes[index];
      const NodeScore& score = view.npu.scores[index];
      summary.matched += node.match != kNone ? 1 : 0;
      summary.overflowing += score.level.empty() ? 0 : 1;
      if (!score.precision || node.type == NodeType::kCollection) {
        continue;
      }
      if (*score.precision == 0) {
        ++summary.passed;
      } else if (*score.precision < 1) {
        ++summary.warned;
      } else {
        ++summary.failed;
        summary.first_failed =
            summary.first_failed.empty() ? std::string(node.name) : summary.first_failed;
      }
    }
    return summary;
  }

  const Options& options_;
  base::ThreadPool pool_;
  Answer answer_;
  InputPlan plan_;
  base::RunStamp stamp_;
  std::optional<TemporaryFolder> merged_;
  std::filesystem::path database_path_;
  std::optional<base::PartialFile> partial_;
  std::unique_ptr<Database> database_;
  int64_t micro_steps_ = 1;
  std::set<int64_t> ranks_;
  std::set<int64_t> steps_;
};

}  // namespace

Result<Answer> Run(const Options& options) { return GraphRun(options).Run(); }

}  // namespace msprobe::analysis::graph
