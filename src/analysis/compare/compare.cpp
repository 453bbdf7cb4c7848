// The whole run of `compare`.
//
// Finds out what was given (dumps, files, folders of other tools) and plans the pairs. The steps of
// a rank form a lane: they come in order, since a step is judged with what the step before it left
// (step_record). Lanes do not depend on each other: they are shared out over the processes of a
// launch (base/shared_run.h) and over threads, the largest first, as far as memory allows, and a
// lane whose files are equal to another's is not compared again. Each pair is summed up, written,
// and added to the page, and its rows are released; where both sides hold tensors, the first
// diverging call is recomputed in higher precision to say which side is wrong. What pairs add to
// the run (pair_outcome.h) is put together in the order of the plan.
#include "src/analysis/compare/compare.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/compare/first_difference.h"
#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/folders/torchair.h"
#include "src/analysis/compare/layouts/joined_pair.h"
#include "src/analysis/compare/page/compare_page.h"
#include "src/analysis/compare/pair_outcome.h"
#include "src/analysis/compare/result_files.h"
#include "src/analysis/compare/result_table.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/recheck/recheck.h"
#include "src/base/buffer_pool.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/report/writers.h"

namespace msprobe::analysis::compare {
namespace {

// How a side came out, to go behind "is" or a comma.
std::string VerdictText(const recheck::CallVerdict& verdict) {
  switch (verdict.verdict) {
    case recheck::Verdict::kWithin:
      return "within its error bound" +
             (verdict.is_less_exact ? ", " + verdict.reason : std::string());
    case recheck::Verdict::kNotCheckable:
      return fmt::format("not checkable ({})", base::Printable(verdict.reason));
    case recheck::Verdict::kBeyond:
      break;
  }
  const recheck::Judgement& worst = *verdict.worst();
  if (!worst.reason.empty()) {
    return fmt::format("off in {} ({})", base::Printable(worst.tensor), worst.reason);
  }
  const std::string how_far = std::isinf(verdict.ratio)
                                  ? "where no error is allowed"
                                  : fmt::format("by {:.3g} times its error bound", verdict.ratio);
  return fmt::format("off {} ({} {} is {:.6g}, exactly {:.6g})", how_far,
                     base::Printable(worst.tensor), worst.element, worst.captured, worst.exact);
}

SideOpinion OpinionOf(const recheck::CheckedCall& call) {
  const std::string npu = VerdictText(*call.sides[0]);
  const std::string bench = VerdictText(*call.sides[1]);
  switch (call.wrong_side()) {
    case recheck::WrongSide::kDump:
      return {WrongSide::kNpu, fmt::format("the test side, {}; the reference is {}", npu, bench)};
    case recheck::WrongSide::kBench:
      return {WrongSide::kBench, fmt::format("the reference, {}; the test side is {}", bench, npu)};
    case recheck::WrongSide::kBoth:
      return {WrongSide::kBoth,
              fmt::format("both sides; the test side is {}, the reference {}", npu, bench)};
    case recheck::WrongSide::kNone:
      return {WrongSide::kNeither,
              npu == bench
                  ? fmt::format("neither side, each is {}", npu)
                  : fmt::format("neither side; the test side is {}, the reference {}", npu, bench)};
    case recheck::WrongSide::kUnknown:
      break;
  }
  return {WrongSide::kUnknown,
          npu == bench
              ? fmt::format("not known, the call is {}", npu)
              : fmt::format("not known; the test side is {}, the reference {}", npu, bench)};
}

recheck::CallVerdict RecheckSide(const std::filesystem::path& json, const std::string& name,
                                 base::ThreadPool& pool) {
  recheck::CallVerdict unknown;
  if (name.empty()) {
    unknown.reason = "it has no partner there";
    return unknown;
  }
  const Result<recheck::DumpEntries> entries = recheck::DumpEntries::Open(json);
  if (!entries.ok()) {
    unknown.reason = entries.status().message();
    return unknown;
  }
  Result<recheck::CallVerdict> verdict =
      recheck::RecheckCall(*entries, name, recheck::Precision(), pool);
  if (!verdict.ok()) {
    unknown.reason = verdict.status().message();
    return unknown;
  }
  return *std::move(verdict);
}

}  // namespace

std::string_view WrongSideName(WrongSide side) {
  constexpr std::array<std::string_view, 5> kNames = {"npu", "bench", "both", "neither", "unknown"};
  return kNames[static_cast<size_t>(side)];
}

bool NameWrongSide(ComparedPair& pair, base::ThreadPool& pool) {
  std::optional<DivergencePoint>& point =
      pair.divergence.first_of_kind[static_cast<size_t>(OriginKind::kComputation)];
  if (pair.result.mode != CompareMode::kRealData || !point || point->is_saved_value) {
    return false;
  }
  recheck::CheckedCall call;
  call.name = point->entry_name;
  // Side by side: what takes the time is reading the tensors, which one thread does.
  const auto recheck_side = [&](size_t side, base::ThreadPool& threads) {
    call.sides[side] = side == 0
                           ? RecheckSide(pair.npu.json_path, point->entry_name, threads)
                           : RecheckSide(pair.bench.json_path, point->bench_entry_name, threads);
  };
  if (pool.thread_count() > 1) {
    pool.ParallelFor(2, [&](size_t side, size_t) {
      base::ThreadPool half(pool.thread_count() / 2);
      recheck_side(side, half);
    });
  } else {
    recheck_side(0, pool);
    recheck_side(1, pool);
  }
  point->wrong_side = OpinionOf(call);
  if (std::optional<DivergencePoint>& first = pair.divergence.first_origin;
      first && first->kind == OriginKind::kComputation) {
    first->wrong_side = point->wrong_side;
  }
  return true;
}

namespace {

namespace fs = std::filesystem;

// Memory for what the lanes of all threads hold at a time, and what a lane needs as a multiple of
// its files.
constexpr uint64_t kLeastLaneMemory = uint64_t{1} << 30U;
constexpr uint64_t kMemoryPerByte = 8;
// Lanes of the same size that a lane is held against.
constexpr size_t kMostTwins = 8;

uint64_t LaneMemory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  return pages <= 0 || page <= 0 ? kLeastLaneMemory
                                 : std::max(kLeastLaneMemory, static_cast<uint64_t>(pages) *
                                                                  static_cast<uint64_t>(page) / 4);
}

// Pairs that follow each other, by their places in the plan.
struct Lane {
  std::vector<size_t> pairs;
};

// What a pair leaves to the next one of its lane.
struct LaneState {
  std::filesystem::path bench_json;
  std::optional<StepRecord> record;
  bool rechecked = false;  // later steps of a rank follow from its first
};

// Files whose content decides what comes out for a pair, apart from the paths themselves.
std::vector<fs::path> FilesOf(const PlannedPair& planned) {
  const fs::path folder = planned.input.npu_json.parent_path();
  return {planned.input.npu_json, planned.input.bench_json, folder / dump::kStackFileName,
          folder / dump::kConstructFileName};
}

// Two looks at files only: every process takes them for all ranks, which a parallel file system
// feels.
base::WorkUnit UnitOf(const PlannedPair& planned) {
  return base::UnitOfFiles({planned.input.npu_json, planned.input.bench_json});
}

// Byte by byte, up to the first difference. Both missing counts as equal.
bool HaveEqualContent(const fs::path& a, const fs::path& b) {
  constexpr size_t kBlock = size_t{1} << 18U;
  const Result<base::InputFile> left = base::InputFile::Open(a);
  const Result<base::InputFile> right = base::InputFile::Open(b);
  if (!left.ok() || !right.ok()) {
    return left.status().code() == StatusCode::kNotFound &&
           right.status().code() == StatusCode::kNotFound;
  }
  std::vector<char> left_block(kBlock);
  std::vector<char> right_block(kBlock);
  for (uint64_t at = 0;; at += kBlock) {
    const Result<size_t> size = left->ReadAt(at, left_block);
    const Result<size_t> other = right->ReadAt(at, right_block);
    if (!size.ok() || !other.ok() || *size != *other ||
        std::memcmp(left_block.data(), right_block.data(), *size) != 0) {
      return false;
    }
    if (*size < kBlock) {
      return true;
    }
  }
}

// Tables of a rank: what one of 20,000 rows takes is a few megabytes.
constexpr uint64_t kMostTableBytes = uint64_t{1} << 30U;

Status CopyFile(const fs::path& from, const fs::path& to) {
  MSP_ASSIGN_OR_RETURN(const std::string bytes, base::ReadTextFile(from, kMostTableBytes));
  return base::WriteFileAtomically(to, bytes);
}

// A run: which dumps are compared (a plan of pairs, or folders whose comparison makes tables), and
// what each adds to the answer.
class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), pool_(options.threads) {
    if (options.output.html) {
      page_.emplace();
    }
  }

  Result<Comparison> Run() {
    if (page_) {
      MSP_RETURN_IF_ERROR(ComparePage::Available());
    }
    const FolderKind kind = FolderKindOf(options_);
    if (kind != FolderKind::kKernels && !options_.folders.kernel_call.empty() &&
        base::Exists(options_.npu_path)) {
      return UsageError("--call needs kernel dumps")
          .WithHint("the kernel dump comes first, the dump of the call second");
    }
    run_.reports = base::AnswersHere();
    if (!run_.reports && !IsSharedOut(kind)) {
      return std::move(run_);
    }
    MSP_RETURN_IF_ERROR(RunKind(kind));
    if (!run_.reports) {
      return std::move(run_);
    }
    FinishSummary(run_.summary);
    run_.summary.seconds = watch_.seconds();
    run_.summary.threads = pool_.thread_count();
    if (page_) {
      MSP_RETURN_IF_ERROR(WritePage());
    }
    return std::move(run_);
  }

 private:
  // -da looks at all ranks together, and the other kinds make one table: the work of one process.
  bool IsSharedOut(FolderKind kind) const {
    return !options_.output.first_difference &&
           (kind == FolderKind::kCalls || kind == FolderKind::kKernels ||
            kind == FolderKind::kTensors);
  }

  // Behind the plan: what is wrong with the inputs every process says for itself.
  Status Begin(FolderKind kind) {
    if (IsSharedOut(kind)) {
      MSP_ASSIGN_OR_RETURN(
          shared_, base::SharedRun::Join(options_.output.folder, "compare", base::TimestampNow()));
      MSP_ASSIGN_OR_RETURN(run_.stamp, shared_.TakeStamp());
    } else {
      MSP_ASSIGN_OR_RETURN(run_.stamp,
                           base::RunStamp::Take(options_.output.folder, base::TimestampNow()));
    }
    if (options_.output.first_difference) {
      difference_run_.emplace(options_.output.folder, run_.stamp.text());
    }
    return OkStatus();
  }

  Status RunKind(FolderKind kind) {
    switch (kind) {
      case FolderKind::kCalls: {
        std::vector<std::string> notes;
        MSP_ASSIGN_OR_RETURN(
            const PairingPlan plan,
            layouts::ApplyLayouts(
                options_, PlanPairs(options_.npu_path, options_.bench_path, options_.edition()),
                pool_, notes));
        MSP_RETURN_IF_ERROR(Begin(kind));
        for (std::string& note : notes) {
          Warn(std::move(note));
        }
        std::error_code error;
        if (fs::equivalent(options_.npu_path, options_.bench_path, error)) {
          Warn(fmt::format("both sides are the same dump, {}: nothing else was compared",
                           options_.npu_path.string()));
        }
        MSP_RETURN_IF_ERROR(RunPairs(
            plan, LanesOf(plan),
            [&](const PlannedPair& planned, LaneState& state, PairOutcome& outcome,
                base::ThreadPool& pool) { return ComparePlanned(planned, state, outcome, pool); }));
        return difference_run_ ? difference_run_->Finish(run_.answers, run_.files) : OkStatus();
      }
      case FolderKind::kKernels: {
        MSP_ASSIGN_OR_RETURN(const KernelPlan plan, PlanKernels(options_));
        MSP_RETURN_IF_ERROR(Begin(kind));
        return RunPairs(
            plan, SingleLanes(plan.pairs.size()),
            [&](const KernelRunPair& planned, LaneState&, PairOutcome&, base::ThreadPool& pool) {
              return CompareKernels(options_, planned, pool);
            });
      }
      case FolderKind::kTensors: {
        MSP_ASSIGN_OR_RETURN(const PairingPlan plan, PlanTensorFolders(options_));
        MSP_RETURN_IF_ERROR(Begin(kind));
        return RunPairs(
            plan, SingleLanes(plan.pairs.size()),
            [&](const PlannedPair& planned, LaneState&, PairOutcome&, base::ThreadPool& pool) {
              return CompareTensorFolders(options_, planned, pool);
            });
      }
      default:
        break;
    }
    MSP_RETURN_IF_ERROR(Begin(kind));
    return WriteTables(kind == FolderKind::kGraph      ? CompareGraphFolders(options_, pool_)
                       : kind == FolderKind::kCommon   ? CompareCommonFolders(options_, pool_)
                       : kind == FolderKind::kTorchair ? CompareTorchair(options_, pool_)
                                                       : CompareAtb(options_, pool_));
  }

  static std::vector<Lane> LanesOf(const PairingPlan& plan) {
    std::vector<Lane> lanes;
    std::map<std::pair<int64_t, bool>, size_t> places;  // by rank and whether it is a debug.json
    for (size_t place = 0; place < plan.pairs.size(); ++place) {
      const PlannedPair& planned = plan.pairs[place];
      const std::pair key(planned.input.rank.value_or(-1), planned.is_debug);
      const auto [found, is_new] = places.emplace(key, lanes.size());
      if (is_new) {
        lanes.emplace_back();
      }
      lanes[found->second].pairs.push_back(place);
    }
    return lanes;
  }

  static std::vector<Lane> SingleLanes(size_t count) {
    std::vector<Lane> lanes(count);
    for (size_t place = 0; place < count; ++place) {
      lanes[place].pairs = {place};
    }
    return lanes;
  }

  // `compare` makes a Result<ComparedPair> of each pair of the plan. The only pair must succeed; of
  // several each may fail alone.
  template <typename Plan, typename Compare>
  Status RunPairs(const Plan& plan, const std::vector<Lane>& lanes, const Compare& compare) {
    run_.summary.npu_only = plan.npu_only;
    run_.summary.bench_only = plan.bench_only;
    std::vector<base::WorkUnit> units(lanes.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      for (const size_t place : lanes[i].pairs) {
        const base::WorkUnit unit = UnitOf(plan.pairs[place]);
        units[i].size += unit.size;
        units[i].mark = units[i].mark * 31 + unit.mark;
      }
    }
    std::vector<std::optional<LaneOutcome>> found;
    MSP_RETURN_IF_ERROR(shared_.ShareOut(
        units,
        [&](std::span<const size_t> mine, const auto& give) {
          return RunLanes(plan, lanes, units, mine, compare, give);
        },
        found));
    if (!run_.reports) {
      return OkStatus();
    }
    TakeOutcomes(plan, lanes, found);
    return options_.output.only_leading ? WriteLeading(plan, lanes, compare) : OkStatus();
  }

  // The lanes of this process. Their own threads share out the lanes where there are enough, so
  // that no thread waits for another; else the threads share the work of each lane.
  template <typename Plan, typename Compare, typename Give>
  Status RunLanes(const Plan& plan, const std::vector<Lane>& lanes,
                  const std::vector<base::WorkUnit>& units, std::span<const size_t> mine,
                  const Compare& compare, const Give& give) {
    size_t pairs = 0;
    for (const size_t lane : mine) {
      pairs += lanes[lane].pairs.size();
    }
    base::Progress progress("comparing", pairs, "ranks", options_.quiet || pairs <= 1);
    if (pairs > 1) {
      base::KeepFreedMemory();  // what one pair leaves is used by the next
    }
    const std::vector<size_t> twin_of = FindTwins(plan, lanes, units, mine);
    std::vector<size_t> first;
    std::vector<size_t> copied;
    for (size_t i = 0; i < mine.size(); ++i) {
      (twin_of[i] == i ? first : copied).push_back(i);
    }
    std::vector<std::optional<LaneOutcome>> outcomes(mine.size());
    std::vector<Status> errors(mine.size());
    std::atomic<bool> failed = false;
    const auto run = [&](size_t i, base::ThreadPool& pool) {
      if (failed) {
        return;
      }
      const Lane& lane = lanes[mine[i]];
      if (twin_of[i] != i) {
        outcomes[i] = CopyTwin(plan, lanes[mine[twin_of[i]]], *outcomes[twin_of[i]], lane);
        if (outcomes[i]) {
          progress.Add(lane.pairs.size());
          return;
        }
      }
      Result<LaneOutcome> outcome = RunLane(plan, lane, compare, pool, progress);
      if (outcome.ok()) {
        outcomes[i] = *std::move(outcome);
      } else {
        errors[i] = std::move(outcome).status();
        failed = true;
      }
    };
    const uint64_t largest = mine.empty() ? 1 : LargestPair(plan, lanes[mine.front()]);
    const uint64_t memory = std::max<uint64_t>(largest * kMemoryPerByte, 1);
    const size_t workers =
        std::min<uint64_t>(pool_.thread_count(), std::max<uint64_t>(LaneMemory() / memory, 1));
    for (const std::vector<size_t>& lanes_now : {first, copied}) {
      if (workers < 2 || lanes_now.size() < pool_.thread_count()) {
        for (const size_t i : lanes_now) {
          run(i, pool_);
        }
        continue;
      }
      base::ThreadPool outer(workers);
      outer.ParallelFor(lanes_now.size(), [&](size_t item, size_t) {
        base::ThreadPool alone(1);
        run(lanes_now[item], alone);
      });
    }
    for (Status& error : errors) {
      MSP_RETURN_IF_ERROR(std::move(error));
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      if (page_ && !run_.reports) {
        for (size_t at = 0; at < outcomes[i]->pairs.size(); ++at) {
          PairOutcome& outcome = outcomes[i]->pairs[at];
          outcome.page = page_->GiveAway(lanes[mine[i]].pairs[at], outcome.summary);
        }
      }
      give(mine[i], *std::move(outcomes[i]));
    }
    return OkStatus();
  }

  template <typename Plan>
  static uint64_t LargestPair(const Plan& plan, const Lane& lane) {
    uint64_t largest = 0;
    for (const size_t place : lane.pairs) {
      largest = std::max(largest, UnitOf(plan.pairs[place]).size);
    }
    return largest;
  }

  // For each lane the first one of `mine` with equal files, itself where there is none. Files are
  // only read where all of their sizes are equal.
  template <typename Plan>
  std::vector<size_t> FindTwins(const Plan& plan, const std::vector<Lane>& lanes,
                                const std::vector<base::WorkUnit>& units,
                                std::span<const size_t> mine) {
    std::vector<size_t> twin_of(mine.size());
    std::iota(twin_of.begin(), twin_of.end(), size_t{0});
    if (difference_run_ || options_.output.log_rows || page_ || options_.v26) {
      return twin_of;  // they say more of a pair than its table, or ask for more files
    }
    std::map<std::pair<uint64_t, size_t>, std::vector<size_t>> groups;
    for (size_t i = 0; i < mine.size(); ++i) {
      groups[{units[mine[i]].size, lanes[mine[i]].pairs.size()}].push_back(i);
    }
    std::vector<const std::vector<size_t>*> several;
    for (const auto& [size, group] : groups) {
      if (group.size() > 1) {
        several.push_back(&group);
      }
    }
    pool_.ParallelFor(several.size(), [&](size_t item, size_t) {
      std::vector<size_t> known;
      for (const size_t i : *several[item]) {
        const auto twin = std::find_if(known.begin(), known.end(), [&](size_t other) {
          return AreTwins(plan, lanes[mine[other]], lanes[mine[i]]);
        });
        if (twin != known.end()) {
          twin_of[i] = *twin;
        } else if (known.size() < kMostTwins) {
          known.push_back(i);
        }
      }
    });
    return twin_of;
  }

  // More than the two files of the pair decides: ranks are joined, or were held against each other.
  static bool AsksOtherRanks(const PlannedPair& planned) {
    return planned.layout && (planned.layout->is_joined || !planned.layout->npu_replicas.empty() ||
                              !planned.layout->bench_replicas.empty());
  }

  template <typename Plan>
  static bool AreTwins(const Plan& plan, const Lane& a, const Lane& b) {
    for (size_t at = 0; at < a.pairs.size(); ++at) {
      const PlannedPair& left = plan.pairs[a.pairs[at]];
      const PlannedPair& right = plan.pairs[b.pairs[at]];
      const std::vector<fs::path> left_files = FilesOf(left);
      const std::vector<fs::path> right_files = FilesOf(right);
      if (left.input.step != right.input.step || left.input.bench_step != right.input.bench_step ||
          left.is_debug != right.is_debug || left.rank_suffix.empty() ||
          right.rank_suffix.empty() || left.result_subfolder != right.result_subfolder ||
          AsksOtherRanks(left) || AsksOtherRanks(right) ||
          !std::equal(left_files.begin(), left_files.end(), right_files.begin(),
                      HaveEqualContent)) {
        return false;
      }
    }
    return true;
  }

  // The outcome of a lane whose files are equal: copies of its twin's. None where more than these
  // files decides: tensors are in further files, and warnings name paths.
  template <typename Plan>
  std::optional<LaneOutcome> CopyTwin(const Plan& plan, const Lane& twin, const LaneOutcome& found,
                                      const Lane& lane) {
    LaneOutcome copy;
    for (size_t at = 0; at < lane.pairs.size(); ++at) {
      const PlannedPair& of_twin = plan.pairs[twin.pairs[at]];
      const PlannedPair& planned = plan.pairs[lane.pairs[at]];
      const PairOutcome& original = found.pairs[at];
      if (original.summary.mode == CompareMode::kRealData || !original.summary.error.empty() ||
          !original.remarks.empty()) {
        return std::nullopt;
      }
      const base::Stopwatch watch;
      PairOutcome& outcome = copy.pairs.emplace_back();
      outcome.summary = original.summary;
      outcome.summary.npu_path = planned.input.npu_json.string();
      outcome.summary.bench_path = planned.input.bench_json.string();
      outcome.summary.rank = planned.input.rank;
      if (planned.layout && outcome.summary.npu_layout && outcome.summary.bench_layout) {
        outcome.summary.npu_layout->ranks = planned.layout->npu_facts.ranks;
        outcome.summary.bench_layout->ranks = planned.layout->bench_facts.ranks;
      }
      const std::string end = "_" + run_.stamp.text();
      for (fs::path& file : outcome.summary.files) {
        const std::string name = file.filename().string();
        const size_t place = name.rfind(of_twin.rank_suffix + end);
        std::error_code failure;
        if (place == std::string::npos) {
          return std::nullopt;
        }
        const fs::path original_file = file;
        file.replace_filename(name.substr(0, place) + planned.rank_suffix +
                              name.substr(place + of_twin.rank_suffix.size()));
        if (!CopyFile(original_file, file).ok()) {
          return std::nullopt;
        }
      }
      outcome.summary.timings = {};
      outcome.summary.timings.write_seconds = watch.seconds();
    }
    return copy;
  }

  template <typename Plan, typename Compare>
  Result<LaneOutcome> RunLane(const Plan& plan, const Lane& lane, const Compare& compare,
                              base::ThreadPool& pool, base::Progress& progress) {
    LaneState state;
    LaneOutcome outcome;
    for (const size_t place : lane.pairs) {
      const auto& planned = plan.pairs[place];
      PairOutcome& pair = outcome.pairs.emplace_back();
      Result<ComparedPair> compared = compare(planned, state, pair, pool);
      const Status status = compared.ok() ? AddPair(place, planned, *compared, pool, pair)
                                          : std::move(compared).status();
      if (!status.ok()) {
        if (plan.pairs.size() == 1 || !base::ConcernsOneInput(status)) {
          return status;
        }
        pair.summary = FailedPair(planned, status.message());
        pair.remarks.push_back({status.message()});
      }
      progress.Add();
    }
    return outcome;
  }

  // What all lanes found, in the order of the plan.
  template <typename Plan>
  void TakeOutcomes(const Plan& plan, const std::vector<Lane>& lanes,
                    std::vector<std::optional<LaneOutcome>>& found) {
    std::vector<PairOutcome> outcomes(plan.pairs.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      for (size_t at = 0; at < lanes[i].pairs.size(); ++at) {
        const size_t place = lanes[i].pairs[at];
        // A part of another process is only known to be well-formed.
        if (found[i] && at < found[i]->pairs.size()) {
          outcomes[place] = std::move(found[i]->pairs[at]);
          PairSummary& summary = outcomes[place].summary;
          summary.step = plan.pairs[place].input.step;
          summary.rank = plan.pairs[place].input.rank;
          summary.is_debug = plan.pairs[place].is_debug;
        } else {
          outcomes[place].summary = FailedPair(plan.pairs[place], shared_.WhyMissing(i));
        }
      }
    }
    for (size_t place = 0; place < outcomes.size(); ++place) {
      PairOutcome& outcome = outcomes[place];
      if (!outcome.call.empty()) {
        run_.calls.push_back(std::move(outcome.call));
      }
      if (outcome.calls) {
        difference_run_->Add(plan.pairs[place], *std::move(outcome.calls));
      }
      std::move(outcome.log_lines.begin(), outcome.log_lines.end(),
                std::back_inserter(run_.log_lines));
      if (outcome.page && page_) {
        page_->Take(place, outcome.summary, *std::move(outcome.page));
      }
      for (PairRemark& remark : outcome.remarks) {
        if (remark.once) {
          Warn(std::move(remark.text));
        } else {
          run_.warnings.push_back(std::move(remark.text));
        }
      }
      run_.summary.pairs.push_back(std::move(outcome.summary));
    }
    for (std::string& sentence : shared_.Missing("ranks", [&](size_t lane) {
           return PairName(FailedPair(plan.pairs[lanes[lane].pairs.front()], ""));
         })) {
      run_.warnings.push_back(std::move(sentence));
    }
  }

  // The tables of the pairs to look at: their lanes are compared once more, up to them.
  template <typename Plan, typename Compare>
  Status WriteLeading(const Plan& plan, const std::vector<Lane>& lanes, const Compare& compare) {
    const std::vector<size_t> leading = LeadingPairs(run_.summary);
    tables_of_.emplace(leading.begin(), leading.end());
    base::Progress progress("writing tables", leading.size(), "ranks", options_.quiet);
    for (const Lane& lane : lanes) {
      Lane front;
      for (size_t at = lane.pairs.size(); at > 0 && front.pairs.empty(); --at) {
        if (tables_of_->contains(lane.pairs[at - 1])) {
          front.pairs.assign(lane.pairs.begin(),
                             lane.pairs.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
      if (front.pairs.empty()) {
        continue;
      }
      MSP_ASSIGN_OR_RETURN(LaneOutcome outcome, RunLane(plan, front, compare, pool_, progress));
      for (size_t at = 0; at < front.pairs.size(); ++at) {
        run_.summary.pairs[front.pairs[at]].files = std::move(outcome.pairs[at].summary.files);
      }
    }
    return OkStatus();
  }

  // Reported once for all pairs that it concerns.
  void Warn(std::string text) {
    if (!base::IsOneOf(text, run_.warnings)) {
      run_.warnings.push_back(std::move(text));
    }
  }

  static PairSummary FailedPair(const PlannedPair& planned, std::string error) {
    PairSummary summary;
    summary.npu_path = planned.input.npu_json.string();
    summary.bench_path = planned.input.bench_json.string();
    summary.step = planned.input.step;
    summary.rank = planned.input.rank;
    summary.is_debug = planned.is_debug;
    summary.error = std::move(error);
    return summary;
  }

  // Compares two dump.json or debug.json. Steps come in order: a step starts from the weights that
  // the step before it left.
  Result<ComparedPair> ComparePlanned(const PlannedPair& planned, LaneState& state,
                                      PairOutcome& outcome, base::ThreadPool& pool) const {
    PairInput input = planned.input;
    const bool follows =
        state.record && state.record->step && input.step && *state.record->step + 1 == *input.step;
    if (follows) {
      input.bench_before = state.bench_json;
    }
    state.bench_json = input.bench_json;
    const StepRecord* const previous = follows ? &*state.record : nullptr;
    bool is_joined = planned.layout && planned.layout->is_joined;
    MSP_ASSIGN_OR_RETURN(ComparedPair pair,
                         ComparePlannedRanks(planned, input, pool, previous, is_joined));
    state.record = std::move(pair.record);
    if (input.step && input.bench_step && *input.step != *input.bench_step) {
      outcome.remarks.push_back(
          {fmt::format("step {} of the test is compared with step {} of the reference", *input.step,
                       *input.bench_step),
           /*once=*/true});
    }
    if (!planned.is_debug && !is_joined && !state.rechecked && NameWrongSide(pair, pool)) {
      state.rechecked = true;
    }
    return pair;
  }

  // One rank with one, or the ranks of both sides joined: these may turn out to be micro-batches of
  // one.
  Result<ComparedPair> ComparePlannedRanks(const PlannedPair& planned, const PairInput& input,
                                           base::ThreadPool& pool, const StepRecord* previous,
                                           bool& is_joined) const {
    if (is_joined) {
      return layouts::CompareJoined(options_, planned, *planned.layout, pool, previous);
    }
    PairSource source;
    MSP_ASSIGN_OR_RETURN(LoadedPair loaded, LoadPair(options_, planned.input, pool, source));
    if (planned.layout && !planned.is_debug &&
        layouts::HaveOtherMicroBatches(loaded.npu, loaded.bench)) {
      is_joined = true;
      planned.layout->is_joined = true;
      return layouts::CompareJoined(options_, planned, *planned.layout, pool, previous);
    }
    if (planned.layout) {
      for (const bool of_bench : {false, true}) {
        for (const layouts::RankReplica& replica :
             of_bench ? planned.layout->bench_replicas : planned.layout->npu_replicas) {
          const std::vector<SideEntry>& entries = (of_bench ? loaded.bench : loaded.npu).entries;
          const auto entry =
              std::find_if(entries.begin(), entries.end(),
                           [&](const SideEntry& known) { return known.name == replica.entry; });
          if (entry != entries.end() && replica.row < entry->row_count) {
            source.replicas.push_back({of_bench, entry->first_row + replica.row, replica.ranks,
                                       replica.group, replica.error});
          }
        }
      }
    }
    return CompareLoaded(options_, input, std::move(loaded), std::move(source), pool, previous);
  }

  bool WritesTables(size_t place) const {
    return tables_of_ ? tables_of_->contains(place) : !options_.output.only_leading;
  }

  // Writes the files of a pair and sums it up.
  Status AddPair(size_t place, const PlannedPair& planned, ComparedPair& pair,
                 base::ThreadPool& pool, PairOutcome& outcome) {
    const base::Stopwatch write_watch;
    outcome.call = pair.call;
    std::vector<fs::path> files;
    if ((!options_.v26 || !options_.v26->statistics_only) && WritesTables(place)) {
      MSP_ASSIGN_OR_RETURN(
          files, WriteResultFiles(options_.output, planned, pair, run_.stamp.text(), pool));
    }
    if (difference_run_ && !planned.is_debug && !tables_of_) {
      MSP_ASSIGN_OR_RETURN(outcome.calls, difference_run_->Record(planned, pair, files));
    }
    if (options_.output.log_rows) {
      AppendRowLog(pair.npu, pair.bench, pair.result, outcome.log_lines);
    }
    pair.timings.write_seconds = write_watch.seconds();
    outcome.summary = SummarizePair(planned, pair);
    if (page_ && !tables_of_) {
      page_->Add(place, outcome.summary, pair, pool);
    }
    // Only the page and the tables show them; a thousand ranks are summed up at a time.
    outcome.summary.divergence.rows = {};
    outcome.summary.divergence.calls = {};
    outcome.summary.files = std::move(files);
    if (pair.result.rows.empty()) {
      outcome.remarks.push_back(
          {fmt::format("{} holds no rows to compare; no result file is written",
                       planned.input.npu_json.string())});
    }
    for (std::string& warning : pair.warnings) {
      outcome.remarks.push_back({std::move(warning), /*once=*/true});
    }
    return OkStatus();
  }

  Status WritePage() {
    const std::string& name = options_.output.name;
    const fs::path path =
        options_.output.folder /
        fmt::format("{}_{}.html", name.empty() ? "compare_result" : name, run_.stamp.text());
    MSP_RETURN_IF_ERROR(page_->Write(path, run_.summary));
    run_.summary.page = path;
    run_.warnings.insert(run_.warnings.end(), page_->notes().begin(), page_->notes().end());
    return {};
  }

  // Writes the tables of folders without a dump.json.
  Status WriteTables(Result<FolderComparison> compared) {
    MSP_ASSIGN_OR_RETURN(FolderComparison comparison, std::move(compared));
    for (FolderTable& table : comparison.tables) {
      const fs::path folder = base::Below(options_.output.folder, table.folder);
      MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
      PairSummary summary;
      summary.npu_path = base::Below(options_.npu_path, table.folder).string();
      summary.bench_path = base::Below(options_.bench_path, table.folder).string();
      if (!table.counts.first_differing.empty()) {
        const std::string where = comparison.tables.size() == 1 ? std::string()
                                  : table.folder.empty()        ? " of " + table.name
                                                                : " of " + table.folder.string();
        run_.answers.push_back(
            fmt::format("First differing row{}: {}", where, table.counts.first_differing));
      }
      summary.counts = table.counts;
      summary.counts.rows = table.table.row_count();
      if (table.is_csv) {
        summary.files.push_back(folder / (table.name + ".csv"));
        MSP_RETURN_IF_ERROR(report::WriteCsv(summary.files[0], table.table));
      } else {
        MSP_ASSIGN_OR_RETURN(
            summary.files, WriteTableFiles(options_.output, table.table,
                                           folder / fmt::format("{}_{}{}", table.name,
                                                                run_.stamp.text(), table.name_end),
                                           table.styled_header, pool_));
      }
      run_.summary.pairs.push_back(std::move(summary));
    }
    run_.warnings = std::move(comparison.warnings);
    return {};
  }

  const Options& options_;
  base::ThreadPool pool_;
  const base::Stopwatch watch_;
  base::SharedRun shared_;
  Comparison run_;
  std::optional<DifferenceRun> difference_run_;
  std::optional<ComparePage> page_;
  std::optional<std::set<size_t>> tables_of_;  // of --only-leading, once all pairs are known
};

}  // namespace

Result<Comparison> Run(const Options& options) { return Runner(options).Run(); }

Result<fs::path> WriteSummary(const Options& options, const Comparison& run, int exit_code) {
  return base::WriteSummary(options.output.folder, run.stamp, SummaryJson(run.summary, exit_code));
}

}  // namespace msprobe::analysis::compare
