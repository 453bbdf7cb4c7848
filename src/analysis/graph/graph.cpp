// One run: steps in order, the ranks of a step in parts that fit into memory.
//
// A step of few ranks is loaded as a whole. Of larger steps the communications are read first, as
// partners are known only when all ranks are; then part by part is loaded, and the next part is
// read ahead while one is written. For each part the walks of `compare` are taken while the trees
// of the first edition are made; the same dumps then give the trees of the other edition. The
// database is finished by a thread of its own while the .vis files of the last step are written.
//
// Several processes share the ranks, each with all of its steps. A process writes the files of its
// ranks, and hands the rest to the first one: what the answer says of a rank, its part of the page,
// and the rows of the database, which are too many for memory and lie in a file per rank. Partners
// are found by every process: it reads the communications of all ranks.
#include "src/analysis/graph/graph.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/pair_outcome.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/database.h"
#include "src/analysis/graph/explorer_file.h"
#include "src/analysis/graph/graph_page.h"
#include "src/analysis/graph/inputs.h"
#include "src/analysis/graph/merge.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/buffer_pool.h"
#include "src/base/output_files.h"
#include "src/base/packed.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {

// What one process hands to another (base/shared_run.h).

template <typename Archive>
void PackMembers(Archive& archive, RankSummary& rank) {
  archive(rank.step, rank.rank, rank.nodes, rank.bench_nodes, rank.matched, rank.passed,
          rank.warned, rank.failed, rank.overflowing, rank.first_failed);
}
template <typename Archive>
void PackMembers(Archive& archive, GraphPage::Elements& elements) {
  archive(elements.texts, elements.bytes);
}
template <typename Archive>
void PackMembers(Archive& archive, GraphPage::Rank& rank) {
  archive(rank.tree, rank.tensors, rank.parts, rank.step);
}

namespace {

using Clock = std::chrono::steady_clock;

// Warnings of a step by where they come from, so that their order does not depend on how many ranks
// are worked on at a time.
enum WarningSource : uint8_t { kOfLoading, kOfWalks, kOfTrees26, kOfTrees8 };
using StepWarnings = std::array<std::vector<std::string>, 4>;

// One rank of one step, for another process.
struct SharedRank {
  Status first_error;    // why it could not be read
  bool is_read = false;  // what follows is there
  StepWarnings warnings;
  bool has_mode = false;
  compare::CompareMode mode = compare::CompareMode::kStatistics;
  RankSummary summary;
  std::optional<compare::PairSummary> comparison;
  int64_t micro_steps = 1;
  std::vector<std::filesystem::path> files;
  uint64_t size_bytes = 0;
  std::optional<GraphPage::Rank> page;
};
// The steps of a rank.
struct SharedLane {
  std::vector<SharedRank> ranks;
};

template <typename Archive>
void PackMembers(Archive& archive, SharedRank& rank) {
  archive(rank.first_error, rank.is_read, rank.warnings, rank.has_mode);
  archive.Choice(rank.mode, static_cast<size_t>(compare::CompareMode::kMd5) + 1);
  archive(rank.summary, rank.comparison, rank.micro_steps, rank.files, rank.size_bytes, rank.page);
}
template <typename Archive>
void PackMembers(Archive& archive, SharedLane& lane) {
  archive(lane.ranks);
}

class GraphRun {
 public:
  explicit GraphRun(const Options& options) : options_(options), pool_(options.threads) {
    answer_.is_comparison = !options.bench_path.empty();
  }

  Result<Answer> Run() {
    const Clock::time_point start = Clock::now();
    base::KeepFreedMemory();  // what one rank leaves is used by the next
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    if (options_.npu_parallelism) {
      if (!base::AnswersHere()) {  // one model is made of all ranks
        answer_.reports = false;
        return std::move(answer_);
      }
      MSP_ASSIGN_OR_RETURN(stamp_, base::RunStamp::Take(options_.output, base::TimestampNow()));
      MSP_RETURN_IF_ERROR(MergeRanksOfModels());
    } else {
      MSP_ASSIGN_OR_RETURN(plan_, FindInputs(options_.npu_path, options_.bench_path));
      MSP_ASSIGN_OR_RETURN(shared_,
                           base::SharedRun::Join(options_.output, "graph", base::TimestampNow()));
      MSP_ASSIGN_OR_RETURN(stamp_, shared_.TakeStamp());
    }
    AppendTo(answer_.warnings, plan_.warnings);
    if (makes_page()) {
      MSP_RETURN_IF_ERROR(GraphPage::Available());
    }
    if (shared_.is_shared()) {
      MSP_RETURN_IF_ERROR(RunShared());
      if (!answer_.reports) {
        return std::move(answer_);
      }
    } else {
      MSP_RETURN_IF_ERROR(RunAlone());
    }
    if (answer_.comparison) {
      compare::FinishSummary(*answer_.comparison);
    }
    if (finishing_.valid()) {
      MSP_RETURN_IF_ERROR(finishing_.get());
      MSP_RETURN_IF_ERROR(partial_->RenameTo(database_path_));
      answer_.files.push_back(database_path_);
    }
    if (page_) {
      const std::filesystem::path path =
          options_.output / fmt::format("{}_{}.html", Kind(), stamp_.text());
      MSP_RETURN_IF_ERROR(page_->Write(path, answer_));
      AppendTo(answer_.warnings, page_->notes());
      answer_.files.push_back(path);
    }
    answer_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return std::move(answer_);
  }

 private:
  struct StepState {
    bool is_whole = true;  // all ranks are in memory at once
    StepPartners partners26;
    StepPartners partners8;
    std::optional<std::pair<RankFolders, std::optional<compare::CompareMode>>> mode;  // of a rank
    Status first_error;
  };

  bool writes_database() const { return options_.write_database && !options_.export_merged; }
  bool writes_vis() const { return options_.write_vis && !options_.export_merged; }
  bool writes_explorer() const { return options_.write_explorer && !options_.export_merged; }
  bool writes_trace() const { return options_.write_trace && !options_.export_merged; }
  bool makes_page() const { return options_.write_page && !options_.export_merged; }

  Status OpenResults() {
    if (writes_database()) {
      MSP_RETURN_IF_ERROR(OpenDatabase());
    }
    if (makes_page()) {
      page_.emplace(pool_);
    }
    return {};
  }

  // Calls run(first, end) with the places of the ranks of each step.
  template <typename Run>
  Status ForEachStep(const Run& run) {
    for (size_t first = 0; first < plan_.ranks.size();) {
      size_t end = first;
      while (end < plan_.ranks.size() && plan_.ranks[end].step == plan_.ranks[first].step) {
        ++end;
      }
      const size_t first_file = answer_.files.size();
      MSP_RETURN_IF_ERROR(run(first, end));
      SortFiles(first_file);
      for (std::vector<std::string>& warnings : warnings_) {
        AppendTo(answer_.warnings, warnings);
        warnings.clear();
      }
      first = end;
    }
    return {};
  }

  // The files of a step by their kind, however many ranks were worked on at a time.
  void SortFiles(size_t first) {
    constexpr std::array<std::string_view, 3> kEndings = {".explorer.json", ".trace.json", ".vis"};
    const auto kind = [&](const std::filesystem::path& file) {
      return std::find_if(
                 kEndings.begin(), kEndings.end(),
                 [&](std::string_view ending) { return file.native().ends_with(ending); }) -
             kEndings.begin();
    };
    std::stable_sort(answer_.files.begin() + static_cast<std::ptrdiff_t>(first),
                     answer_.files.end(),
                     [&](const auto& x, const auto& y) { return kind(x) < kind(y); });
  }

  Status RunAlone() {
    MSP_RETURN_IF_ERROR(OpenResults());
    return ForEachStep([&](size_t first, size_t end) {
      return RunStep({plan_.ranks.data() + first, end - first}, end == plan_.ranks.size());
    });
  }

  Status RunShared() {
    std::map<int64_t, std::vector<size_t>> lane_of;
    for (size_t place = 0; place < plan_.ranks.size(); ++place) {
      lane_of[plan_.ranks[place].rank].push_back(place);
    }
    std::vector<std::vector<size_t>> lanes;
    std::vector<base::WorkUnit> units;
    for (auto& [rank, places] : lane_of) {
      base::WorkUnit unit;
      for (const size_t place : places) {
        const RankFolders& folders = plan_.ranks[place];
        const base::WorkUnit one = base::UnitOfFiles(
            {folders.npu / dump::kDumpFileName, folders.bench / dump::kDumpFileName});
        unit.size += one.size;
        unit.mark = unit.mark * 31 + one.mark;
      }
      units.push_back(unit);
      lanes.push_back(std::move(places));
    }
    std::vector<std::optional<SharedLane>> found;
    MSP_RETURN_IF_ERROR(shared_.ShareOut(
        units,
        [&](std::span<const size_t> mine, const auto& give) -> Status {
          std::map<int64_t, StepState> steps;
          base::Progress progress("writing", mine.size(), "ranks", options_.quiet);
          part_options_ = options_;
          part_options_.quiet = true;
          for (const size_t lane : mine) {
            SharedLane result;
            for (const size_t place : lanes[lane]) {
              MSP_ASSIGN_OR_RETURN(StepState* const state, StateOf(place, steps));
              MSP_ASSIGN_OR_RETURN(SharedRank rank, RunForAnother(place, *state));
              result.ranks.push_back(std::move(rank));
            }
            give(lane, std::move(result));
            progress.Add();
          }
          return {};
        },
        found));
    answer_.reports = shared_.answers();
    return answer_.reports ? TakeShared(lanes, found) : Status();
  }

  // The state of a rank's step, with the partners of its communications.
  Result<StepState*> StateOf(size_t place, std::map<int64_t, StepState>& steps) {
    const int64_t step = plan_.ranks[place].step;
    const auto [known, is_new] = steps.try_emplace(step);
    if (is_new) {
      const auto is_of_step = [step](const RankFolders& rank) { return rank.step == step; };
      const auto first = std::find_if(plan_.ranks.begin(), plan_.ranks.end(), is_of_step);
      const auto end = std::find_if_not(first, plan_.ranks.end(), is_of_step);
      known->second.is_whole = false;
      MSP_RETURN_IF_ERROR(FindAllPartners({first, end}, known->second));
    }
    return &known->second;
  }

  // Where the rows of a rank lie until the first process enters them.
  std::filesystem::path RowsFile(size_t place) const {
    return shared_.folder() / fmt::format("rows_{}", place);
  }

  Result<SharedRank> RunForAnother(size_t place, StepState& state) {
    MSP_ASSIGN_OR_RETURN(LoadedStep step, LoadStep({&plan_.ranks[place], 1}, part_options_,
                                                   /*keep_entry=*/nullptr, pool_));
    SharedRank rank;
    rank.first_error = step.first_error;
    rank.is_read = !step.ranks.empty();
    if (rank.is_read && writes_database()) {
      MSP_ASSIGN_OR_RETURN(database_, Database::Record(RowsFile(place), answer_.is_comparison));
    }
    Answer whole = std::exchange(answer_, {});
    answer_.is_comparison = whole.is_comparison;
    const Status status = RunRanks(step, /*is_last=*/false, state);
    Answer alone = std::exchange(answer_, std::move(whole));
    MSP_RETURN_IF_ERROR(Status(status));
    rank.warnings = std::exchange(warnings_, {});
    if (!rank.is_read) {
      return rank;
    }
    if (database_) {
      MSP_RETURN_IF_ERROR(database_->Finish({}));
      database_.reset();
    }
    rank.has_mode = alone.mode.has_value();
    rank.mode = alone.mode.value_or(rank.mode);
    rank.summary = std::move(alone.ranks.front());
    if (alone.comparison) {
      rank.comparison = std::move(alone.comparison->pairs.front());
    }
    rank.micro_steps = std::exchange(micro_steps_, 1);
    rank.files = std::move(alone.files);
    rank.size_bytes = alone.size_bytes;
    rank.page = std::exchange(page_part_, {});
    return rank;
  }

  // What all processes found, in the order of one.
  Status TakeShared(const std::vector<std::vector<size_t>>& lanes,
                    std::vector<std::optional<SharedLane>>& found) {
    std::vector<SharedRank*> ranks(plan_.ranks.size());
    std::vector<size_t> lane_of(plan_.ranks.size());
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      for (size_t at = 0; at < lanes[lane].size(); ++at) {
        lane_of[lanes[lane][at]] = lane;
        // A part of another process is only known to be well-formed.
        if (found[lane] && at < found[lane]->ranks.size()) {
          ranks[lanes[lane][at]] = &found[lane]->ranks[at];
        }
      }
    }
    ranks_.clear();
    steps_.clear();
    MSP_RETURN_IF_ERROR(OpenResults());
    const Status taken = ForEachStep([&](size_t first, size_t end) -> Status {
      StepState state;
      bool is_missing = false;
      for (size_t place = first; place < end; ++place) {
        if (ranks[place] == nullptr) {
          is_missing = true;
          answer_.incomplete = true;
          warnings_[kOfLoading].push_back(
              fmt::format("step {} rank {} is left out: {}", plan_.ranks[place].step,
                          plan_.ranks[place].rank, shared_.WhyMissing(lane_of[place])));
          continue;
        }
        MSP_RETURN_IF_ERROR(TakeRank(place, *ranks[place], state));
      }
      return state.mode || is_missing ? Status() : state.first_error;
    });
    MSP_RETURN_IF_ERROR(Status(taken));
    AppendTo(answer_.warnings, shared_.Missing("ranks", [&](size_t lane) {
      return fmt::format("rank {}", plan_.ranks[lanes[lane].front()].rank);
    }));
    if (database_) {
      StartToFinishDatabase();
    }
    return {};
  }

  Status TakeRank(size_t place, SharedRank& rank, StepState& state) {
    for (size_t source = 0; source < warnings_.size(); ++source) {
      AppendTo(warnings_[source], rank.warnings[source]);
    }
    if (!rank.first_error.ok()) {
      answer_.incomplete = true;
      state.first_error = state.first_error.ok() ? rank.first_error : state.first_error;
    }
    std::error_code ignored;
    if (!rank.is_read) {
      std::filesystem::remove(RowsFile(place), ignored);  // of an earlier try
      return {};
    }
    LoadedRank loaded;
    loaded.folders = plan_.ranks[place];
    if (rank.has_mode) {
      loaded.mode = rank.mode;
    }
    MSP_RETURN_IF_ERROR(CheckModes(loaded, state));
    answer_.size_bytes += rank.size_bytes;
    AppendTo(answer_.files, rank.files);
    if (database_) {
      MSP_RETURN_IF_ERROR(database_->AddRecorded(RowsFile(place)));
      std::filesystem::remove(RowsFile(place), ignored);
    }
    if (page_ && rank.page) {
      page_->Take(*std::move(rank.page));
    }
    ranks_.insert(rank.summary.rank);
    steps_.insert(rank.summary.step);
    micro_steps_ = std::max(micro_steps_, rank.micro_steps);
    answer_.ranks.push_back(std::move(rank.summary));
    if (rank.comparison) {
      KeepComparison(answer_.ranks.back(), *rank.comparison);
    }
    return {};
  }

  Status MergeRanksOfModels() {
    if (!options_.export_merged) {
      merged_.emplace(options_.output / (".merged_" + stamp_.text()));
    }
    MSP_ASSIGN_OR_RETURN(MergedInputs inputs,
                         MergeInputs(options_, merged_ ? merged_->path() : options_.output));
    plan_ = std::move(inputs.plan);
    answer_.files = std::move(inputs.exported);
    return {};
  }

  template <typename Value>
  static void AppendTo(std::vector<Value>& all, const std::vector<Value>& more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  std::string Kind() const { return answer_.is_comparison ? "compare" : "build"; }

  Status OpenDatabase() {
    database_path_ = options_.output / fmt::format("{}_{}.vis.db", Kind(), stamp_.text());
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(database_path_));
    partial_.emplace(options_.output /
                     fmt::format(".{}.{}.partial", database_path_.filename().string(), ::getpid()));
    MSP_RETURN_IF_ERROR(partial_->Create());
    MSP_ASSIGN_OR_RETURN(database_, Database::Create(partial_->path(), answer_.is_comparison));
    return {};
  }

  // The rest of the database is written while the .vis files of the last step are.
  void StartToFinishDatabase() {
    DatabaseConfig& config = config_;
    config.is_comparison = answer_.is_comparison;
    config.mode = answer_.mode;
    config.micro_steps = micro_steps_;
    config.overflow_check = options_.overflow_check;
    config.ranks.assign(ranks_.begin(), ranks_.end());
    config.steps.assign(steps_.begin(), steps_.end());
    config.verdicts = ListRanks(answer_);
    std::erase_if(config.verdicts, [](const ListedRank& rank) { return rank.verdict.empty(); });
    const bool beside = pool_.thread_count() > 1;
    finishing_ =
        std::async(beside ? std::launch::async | std::launch::deferred : std::launch::deferred,
                   // Where no thread is to be had, the library calls what it has moved away from
                   // already: it holds nothing but a pointer.
                   [this] { return database_->Finish(config_); });
  }

  // So many ranks are worked on at a time: enough for all threads. As many more may be in memory,
  // read ahead.
  size_t MostRanks() const { return std::max<size_t>(pool_.thread_count(), 2); }

  bool makes_26() const {
    return writes_database() || writes_explorer() || writes_trace() || makes_page() ||
           answer_.is_comparison || !writes_vis();
  }

  Status RunStep(std::span<const RankFolders> folders, bool is_last) {
    StepState state;
    state.is_whole = folders.size() <= MostRanks();
    // One line for the whole step instead of one for each of its parts.
    part_options_ = options_;
    part_options_.quiet = options_.quiet || !state.is_whole;
    base::Progress progress("writing", folders.size(), "ranks", options_.quiet || state.is_whole);
    if (!state.is_whole) {
      MSP_RETURN_IF_ERROR(FindAllPartners(folders, state));
      if (pool_.thread_count() > 1 && !reading_pool_) {
        reading_pool_.emplace(pool_.thread_count() / 2);
      }
    }
    const auto part = [&folders, this](size_t first) {
      return folders.subspan(first, std::min(MostRanks(), folders.size() - first));
    };
    // The next ranks are read while those before them are written; who reads also takes apart those
    // that have been written.
    std::future<Result<LoadedStep>> ahead;
    std::optional<LoadedStep> written;
    for (size_t first = 0; first < folders.size(); first += MostRanks()) {
      const size_t next = first + part(first).size();
      MSP_ASSIGN_OR_RETURN(
          LoadedStep step,
          ahead.valid() ? ahead.get() : LoadStep(part(first), part_options_, nullptr, pool_));
      if (reading_pool_ && next < folders.size()) {
        ahead = std::async(std::launch::async | std::launch::deferred,
                           [this, ranks = part(next), old = std::move(written)]() mutable {
                             old.reset();
                             return LoadStep(ranks, part_options_, nullptr, *reading_pool_);
                           });
      }
      MSP_RETURN_IF_ERROR(RunRanks(step, is_last && next == folders.size(), state));
      if (reading_pool_) {
        written = std::move(step);
      }
      progress.Add(next - first);
    }
    if (!state.mode) {
      return state.first_error;
    }
    if (database_ && is_last && !finishing_.valid()) {
      StartToFinishDatabase();
    }
    return {};
  }

  // Partners are known when all ranks are: of more ranks than fit into memory at once the
  // communications are read beforehand. Layers are paired by all of their calls.
  Status FindAllPartners(std::span<const RankFolders> folders, StepState& state) {
    if (!AnyCommunicates(folders)) {
      return {};
    }
    const RankDump::KeepEntry keep =
        options_.layer_mapping.given ? RankDump::KeepEntry() : IsCommunicationName;
    std::vector<StepCommunications> found26(folders.size());
    std::vector<StepCommunications> found8(folders.size());
    std::vector<Status> statuses(folders.size());
    pool_.ParallelFor(folders.size(), [&](size_t place, size_t /*worker*/) {
      statuses[place] =
          FindCommunications(folders.subspan(place, 1), keep, found26[place], found8[place]);
    });
    for (Status& status : statuses) {
      MSP_RETURN_IF_ERROR(std::move(status));
    }
    state.partners26 = PartnersOf(JoinCommunications(std::move(found26)), Edition::kV26);
    state.partners8 = PartnersOf(JoinCommunications(std::move(found8)), Edition::kV8);
    return {};
  }

  // The communications of one rank, on one thread.
  Status FindCommunications(std::span<const RankFolders> folders, const RankDump::KeepEntry& keep,
                            StepCommunications& found26, StepCommunications& found8) const {
    base::ThreadPool alone(1);
    std::vector<std::string> told_later;
    MSP_ASSIGN_OR_RETURN(LoadedStep step, LoadStep(folders, part_options_, keep, alone));
    const auto read = [&](Edition edition, StepCommunications& found) -> Status {
      MSP_ASSIGN_OR_RETURN(
          const std::vector<RankView> views,
          MakeViews(step, edition, part_options_, /*beside=*/{}, alone, told_later));
      return AddCommunications(views, options_.overflow_check, found);
    };
    if (writes_database()) {
      MSP_RETURN_IF_ERROR(read(Edition::kV26, found26));
    }
    return writes_vis() ? read(Edition::kV8, found8) : Status();
  }

  static StepCommunications JoinCommunications(std::vector<StepCommunications> ranks) {
    StepCommunications all;
    for (StepCommunications& rank : ranks) {
      std::move(rank.npu.begin(), rank.npu.end(), std::back_inserter(all.npu));
      std::move(rank.bench.begin(), rank.bench.end(), std::back_inserter(all.bench));
    }
    return all;
  }

  // Goes through the names alone. What cannot be read is reported when it is loaded.
  bool AnyCommunicates(std::span<const RankFolders> folders) {
    std::atomic<bool> found = false;
    pool_.ParallelFor(folders.size(), [&](size_t place, size_t /*worker*/) {
      for (const std::filesystem::path& folder : {folders[place].npu, folders[place].bench}) {
        if (!folder.empty() && !found) {
          const auto scanned =
              dump::ScanEntries(folder / dump::kDumpFileName,
                                [&found](const dump::ScannedEntry& entry, const auto& /*so_far*/) {
                                  if (IsCommunicationName(entry.name)) {
                                    found = true;
                                  }
                                  return !found;
                                });
          static_cast<void>(scanned);
        }
      }
    });
    return found;
  }

  Status CheckModes(const LoadedRank& rank, StepState& state) {
    if (state.mode && state.mode->second != rank.mode) {
      LoadedRank first;
      first.folders = state.mode->first;
      first.mode = state.mode->second;
      return TasksDiffer(first, rank);
    }
    if (!answer_.ranks.empty() && answer_.mode != rank.mode) {
      return MismatchError(
                 fmt::format("step {} was dumped with task {}, the steps before it with {}",
                             rank.folders.step, TaskName(rank.mode), TaskName(answer_.mode)))
          .WithHint("name the folders of steps of one task at a time");
    }
    state.mode.emplace(rank.folders, rank.mode);
    answer_.mode = rank.mode;
    return {};
  }

  Status RunRanks(LoadedStep& step, bool is_last, StepState& state) {
    AppendTo(warnings_[kOfLoading], step.warnings);
    walks_.Begin(step, part_options_, pool_);
    if (!step.first_error.ok()) {
      answer_.incomplete = true;
      state.first_error = state.first_error.ok() ? step.first_error : state.first_error;
    }
    if (step.ranks.empty()) {
      return {};
    }
    MSP_RETURN_IF_ERROR(CheckModes(step.ranks.front(), state));
    answer_.size_bytes += step.SizeBytes();
    const auto views_of = [&](Edition edition,
                              StepPartners& partners) -> Result<std::vector<RankView>> {
      // The walks are taken while the first trees are made.
      const WorkBeside walks = {walks_.count(), [this](size_t item) { walks_.Take(item); }};
      std::vector<std::string> warnings;
      MSP_ASSIGN_OR_RETURN(std::vector<RankView> views,
                           MakeViews(step, edition, part_options_, walks, pool_, warnings));
      AppendTo(warnings_[kOfWalks], walks_.Finish());
      AppendTo(warnings_[edition == Edition::kV26 ? kOfTrees26 : kOfTrees8], warnings);
      if (state.is_whole) {
        StepCommunications found;
        MSP_RETURN_IF_ERROR(AddCommunications(views, options_.overflow_check, found));
        partners = PartnersOf(std::move(found), edition);
      }
      SetPartners(partners, pool_, views);
      return views;
    };
    if (makes_26()) {
      MSP_ASSIGN_OR_RETURN(const std::vector<RankView> views,
                           views_of(Edition::kV26, state.partners26));
      for (const RankView& view : views) {
        if (database_) {
          MSP_RETURN_IF_ERROR(database_->Add(view, pool_));
        }
        if (page_) {
          page_->Add(view);
        } else if (makes_page()) {
          page_part_ = GraphPage::MakeRank(view, pool_);
        }
      }
      MSP_RETURN_IF_ERROR(WriteForOthers(views));
      Summarize(views, step);
    }
    if (database_ && is_last) {
      StartToFinishDatabase();
    }
    if (writes_vis()) {
      MSP_ASSIGN_OR_RETURN(const std::vector<RankView> views,
                           views_of(Edition::kV8, state.partners8));
      MSP_RETURN_IF_ERROR(WriteVisFiles(views));
      if (!makes_26()) {
        Summarize(views, step);
      }
    }
    return {};
  }

  void Summarize(const std::vector<RankView>& views, const LoadedStep& step) {
    for (const RankView& view : views) {
      answer_.ranks.push_back(SummaryOf(view));
      ranks_.insert(view.rank);
      steps_.insert(view.step);
      micro_steps_ = std::max(micro_steps_, view.npu.graph.micro_step_count);
    }
    KeepComparisons(step);
  }

  void KeepComparisons(const LoadedStep& step) {
    const size_t first = answer_.ranks.size() - step.ranks.size();
    for (size_t place = 0; place < step.ranks.size(); ++place) {
      if (const std::optional<compare::PairSummary>& found = step.ranks[place].comparison) {
        KeepComparison(answer_.ranks[first + place], *found);
      }
    }
  }

  // Without rows and calls, which are in the files.
  void KeepComparison(RankSummary& rank, const compare::PairSummary& found) {
    if (!answer_.comparison) {
      answer_.comparison.emplace();
      answer_.comparison->npu_only = plan_.npu_only;
      answer_.comparison->bench_only = plan_.bench_only;
    }
    rank.pair = answer_.comparison->pairs.size();
    compare::DivergenceReport& kept = answer_.comparison->pairs.emplace_back(found).divergence;
    kept.rows = {};
    kept.calls = {};
  }

  std::filesystem::path FilePath(const RankView& view, std::string_view ending) const {
    std::string name = Kind();
    if (plan_.has_steps) {
      name += fmt::format("_step{}", view.step);
    }
    if (plan_.has_ranks || plan_.has_steps) {
      name += fmt::format("_rank{}", view.rank);
    }
    return options_.output / fmt::format("{}_{}.{}", name, stamp_.text(), ending);
  }

  // A file per rank and viewer, side by side.
  Status WriteForOthers(const std::vector<RankView>& views) {
    for (const auto& [is_asked, ending, write] :
         {std::tuple(writes_explorer(), "explorer.json", &WriteExplorerFile),
          std::tuple(writes_trace(), "trace.json", &WriteTraceFile)}) {
      if (!is_asked) {
        continue;
      }
      std::vector<Status> statuses(views.size());
      pool_.ParallelFor(views.size(),
                        [&, place_of = ending, to_file = write](size_t place, size_t /*worker*/) {
                          statuses[place] = to_file(FilePath(views[place], place_of), views[place]);
                        });
      for (size_t place = 0; place < views.size(); ++place) {
        MSP_RETURN_IF_ERROR(std::move(statuses[place]));
        answer_.files.push_back(FilePath(views[place], ending));
      }
    }
    return {};
  }

  Status WriteVisFiles(const std::vector<RankView>& views) {
    for (const RankView& view : views) {
      MSP_RETURN_IF_ERROR(
          WriteVisFile(FilePath(view, "vis"), view, options_.overflow_check, pool_));
      answer_.files.push_back(FilePath(view, "vis"));
    }
    return {};
  }

  static RankSummary SummaryOf(const RankView& view) {
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
  Options part_options_;  // of the step that is at work
  base::ThreadPool pool_;
  std::optional<base::ThreadPool> reading_pool_;  // where parts of a step are read ahead
  Answer answer_;
  InputPlan plan_;
  base::SharedRun shared_;
  DivergenceWalks walks_;
  StepWarnings warnings_;  // of the step that is at work
  base::RunStamp stamp_;
  std::optional<TemporaryFolder> merged_;
  std::filesystem::path database_path_;
  std::optional<base::PartialFile> partial_;
  std::optional<GraphPage> page_;             // where one is asked for
  std::optional<GraphPage::Rank> page_part_;  // of a rank for another process
  std::unique_ptr<Database> database_;
  DatabaseConfig config_;
  std::future<Status> finishing_;  // of the database; reads config_
  int64_t micro_steps_ = 1;
  std::set<int64_t> ranks_;
  std::set<int64_t> steps_;
};

}  // namespace

Result<Answer> Run(const Options& options) { return GraphRun(options).Run(); }

namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Tone;

constexpr size_t kShownRanks = 8;

struct Totals {
  uint64_t nodes = 0;
  uint64_t bench_nodes = 0;
  uint64_t matched = 0;
  uint64_t judged = 0;
  uint64_t warned = 0;
  uint64_t failed = 0;
  uint64_t overflowing = 0;

  bool has_unmatched() const { return matched != nodes || matched != bench_nodes; }
};

Totals TotalsOf(const Answer& answer) {
  Totals totals;
  for (const RankSummary& rank : answer.ranks) {
    totals.nodes += rank.nodes;
    totals.bench_nodes += rank.bench_nodes;
    totals.matched += rank.matched;
    totals.judged += rank.passed + rank.warned + rank.failed;
    totals.warned += rank.warned;
    totals.failed += rank.failed;
    totals.overflowing += rank.overflowing;
  }
  return totals;
}

std::string Judged(const Totals& totals) { return Plural(totals.judged, "node") + " with values"; }

report::Verdict MakeGraphVerdict(const Answer& answer, const Totals& totals) {
  report::Verdict verdict;
  verdict.unit = "nodes";
  const auto say = [&verdict](std::string_view word, Tone tone, uint64_t number,
                              const std::string& text, AnswerOutcome outcome) {
    verdict.Say(word, text, tone, outcome);
    verdict.number = static_cast<double>(number);
  };
  const std::string graphs = Plural(answer.ranks.size(), "graph");
  if (!answer.is_comparison) {
    say("BUILT", Tone::kStrong, totals.nodes,
        fmt::format("{} of {}", graphs, Plural(totals.nodes, "node")), AnswerOutcome::kClean);
  } else if (totals.failed > 0) {
    say("DIFFERENT", Tone::kBad, totals.failed,
        fmt::format("{} of {} are judged errors", FormatCount(totals.failed), Judged(totals)),
        AnswerOutcome::kFindings);
  } else if (totals.has_unmatched()) {
    say("DIFFERENT IN STRUCTURE", Tone::kCaution, totals.nodes - totals.matched,
        fmt::format("{} of {} have a partner among {}", FormatCount(totals.matched),
                    Plural(totals.nodes, "node"), FormatCount(totals.bench_nodes)),
        AnswerOutcome::kFindings);
  } else if (totals.warned > 0) {
    say("WARNINGS", Tone::kCaution, totals.warned,
        fmt::format("{} of {} are judged warnings", FormatCount(totals.warned), Judged(totals)),
        AnswerOutcome::kFindings);
  } else if (answer.mode && totals.judged == 0) {
    say("NOTHING COMPARED", Tone::kBad, 0, "no node has values on both sides",
        AnswerOutcome::kNothingCompared);
  } else {
    say("PASS", Tone::kGood, totals.matched,
        answer.mode ? fmt::format("all {} pass the rules of 26.x", Judged(totals))
                    : fmt::format("all {} have a partner", Plural(totals.nodes, "node")),
        AnswerOutcome::kClean);
  }
  return verdict;
}

// Nodes are judged by the rules of 26.x, the run by the walk of `compare`, which sees below those
// rules and says where it starts. What the rules find where the walk finds nothing is reported.
report::Verdict MakeVerdict(const Answer& answer, const Totals& totals) {
  report::Verdict verdict = MakeGraphVerdict(answer, totals);
  if (answer.comparison) {
    switch (compare::VerdictOf(*answer.comparison)) {
      case compare::PairVerdict::kUnequalBits:
      case compare::PairVerdict::kUnreadable:
      case compare::PairVerdict::kDrifts:
      case compare::PairVerdict::kDiffers:
      case compare::PairVerdict::kFailed:
        verdict = compare::MakeVerdict(*answer.comparison);
        break;
      default:
        if (verdict.outcome == AnswerOutcome::kClean) {
          verdict = compare::MakeVerdict(*answer.comparison);
        }
    }
  }
  if (answer.incomplete) {
    verdict.outcome = AnswerOutcome::kIncomplete;
  }
  return verdict;
}

const compare::PairSummary* PairOf(const Answer& answer, const RankSummary& rank) {
  return rank.pair ? &answer.comparison->pairs[*rank.pair] : nullptr;
}

bool IsDifferent(const compare::RunSummary& comparison) {
  const std::vector<report::LevelOutcome> levels = compare::LevelsOf(comparison);
  return std::any_of(levels.begin(), levels.end(), [](const report::LevelOutcome& level) {
    return level.word == "different" && level.found;
  });
}

report::TestCase CaseOf(const Answer& answer, const RankSummary& rank) {
  report::TestCase test;
  if (const compare::PairSummary* const pair = PairOf(answer, rank)) {
    compare::RunSummary alone;
    alone.pairs.push_back(*pair);
    test = compare::CasesOf(alone).front();
    // A graph has one of the levels of compare.
    if (!test.level.empty() && !base::IsOneOf("different", test.further_levels)) {
      test = {};
    } else if (!test.level.empty()) {
      test.level = "different";
    }
    test.further_levels.clear();
  }
  test.name = fmt::format("step {} rank {}", rank.step, rank.rank);
  if (rank.failed > 0 && test.outcome == report::CaseOutcome::kPassed) {
    test.outcome = report::CaseOutcome::kFailed;
    test.level = "error";
    test.type = "different";
    test.message =
        fmt::format("{} nodes are judged errors, first {}", rank.failed, rank.first_failed);
  } else if (rank.failed > 0) {
    test.further_levels.emplace_back("error");
  }
  return test;
}

std::string TextOfRank(const Answer& answer, const RankSummary& rank) {
  std::string text = Plural(rank.nodes, "node");
  if (answer.is_comparison) {
    text += fmt::format(", {} matched with {}", FormatCount(rank.matched),
                        FormatCount(rank.bench_nodes));
    if (answer.mode) {
      text += fmt::format(": {} pass, {} warning, {} error", FormatCount(rank.passed),
                          FormatCount(rank.warned), FormatCount(rank.failed));
    }
  }
  if (rank.overflowing > 0) {
    text += fmt::format(", {} with NaN or infinity", FormatCount(rank.overflowing));
  }
  return text;
}

}  // namespace

report::Document MakeDocument(const Answer& answer) {
  report::Document document;
  document.command = "graph";
  const Totals totals = TotalsOf(answer);
  document.verdict = MakeVerdict(answer, totals);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "error", totals.failed > 0);
  report::SetFound(document.levels, "unmatched", answer.is_comparison && totals.has_unmatched());
  report::SetFound(document.levels, "different",
                   answer.comparison ? IsDifferent(*answer.comparison) : totals.failed > 0);
  List ranks = {ListKind::kNamed, {}, {.items = kShownRanks}};
  for (const RankSummary& rank : answer.ranks) {
    const std::string name = fmt::format("step {} rank {}", rank.step, rank.rank);
    Item item = {name, TextOfRank(answer, rank),
                 rank.failed > 0   ? Tone::kBad
                 : rank.warned > 0 ? Tone::kCaution
                                   : Tone::kPlain};
    if (!rank.first_failed.empty()) {
      item.details.push_back({"first error", rank.first_failed});
    }
    if (const compare::PairSummary* const pair = PairOf(answer, rank);
        pair != nullptr && pair->divergence.first_origin) {
      item.details.push_back(
          {"starts with", "starts with " + compare::PointTitle(*pair->divergence.first_origin)});
    }
    ranks.items.push_back(std::move(item));
    document.cases.push_back(CaseOf(answer, rank));
  }
  if (answer.comparison) {
    document.sections.push_back(compare::MakeOrigins(*answer.comparison));
  }
  document.Add("", std::move(ranks));
  bool is_page = false;
  for (const std::filesystem::path& file : answer.files) {
    document.files.push_back({file});
    is_page = is_page || file.extension() == ".html";
  }
  if (answer.comparison) {
    document.Advise(compare::NextStep(*answer.comparison));
  }
  if (!answer.files.empty() && !is_page) {
    report::List hint{report::ListKind::kSentences, {}};
    hint.items.push_back(
        {"", fmt::format("To see it in a browser: msprobe serve {}, or --format html for a page",
                         base::Printable(answer.files.front().parent_path().string()))});
    document.Add("", std::move(hint));
  }
  document.warnings = answer.warnings;
  document.bytes = answer.size_bytes;
  document.seconds = answer.seconds;
  document.action = answer.is_comparison ? "compared" : "read";
  return document;
}

}  // namespace msprobe::analysis::graph
