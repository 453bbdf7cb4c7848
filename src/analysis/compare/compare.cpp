#include "src/analysis/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/folders.h"
#include "src/analysis/compare/graph_folders.h"
#include "src/analysis/compare/kernel/kernel_compare.h"
#include "src/analysis/compare/line26/atb_compare.h"
#include "src/analysis/compare/line26/first_difference.h"
#include "src/analysis/compare/line26/result_table26.h"
#include "src/analysis/compare/line26/torchair_compare.h"
#include "src/analysis/compare/page/compare_page.h"
#include "src/analysis/compare/result_files.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/recheck/recheck.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
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
      return {WrongSide::kNpu, fmt::format("the NPU side, {}; the bench is {}", npu, bench)};
    case recheck::WrongSide::kBench:
      return {WrongSide::kBench, fmt::format("the bench, {}; the NPU side is {}", bench, npu)};
    case recheck::WrongSide::kBoth:
      return {WrongSide::kBoth,
              fmt::format("both sides; the NPU side is {}, the bench {}", npu, bench)};
    case recheck::WrongSide::kNone:
      return {WrongSide::kNeither,
              npu == bench
                  ? fmt::format("neither side, each is {}", npu)
                  : fmt::format("neither side; the NPU side is {}, the bench {}", npu, bench)};
    case recheck::WrongSide::kUnknown:
      break;
  }
  return {WrongSide::kUnknown,
          npu == bench ? fmt::format("not known, the call is {}", npu)
                       : fmt::format("not known; the NPU side is {}, the bench {}", npu, bench)};
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
  call.sides[0] = RecheckSide(pair.npu.json_path, point->entry_name, pool);
  call.sides[1] = RecheckSide(pair.bench.json_path, point->bench_entry_name, pool);
  point->wrong_side = OpinionOf(call);
  if (std::optional<DivergencePoint>& first = pair.divergence.first_origin;
      first && first->kind == OriginKind::kComputation) {
    first->wrong_side = point->wrong_side;
  }
  return true;
}

namespace {

namespace fs = std::filesystem;

// Errors after which the other pairs still make sense; anything else (a full disk) would only
// repeat.
bool ConcernsThisPairOnly(StatusCode code) {
  return code == StatusCode::kBadFormat || code == StatusCode::kNotFound ||
         code == StatusCode::kUnsupported || code == StatusCode::kMismatch;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), pool_(options.threads) {
    if (options.write_html) {
      page_.emplace(pool_);
    }
  }

  Result<Comparison> Run() {
    if (page_) {
      MSP_RETURN_IF_ERROR(ComparePage::Available());
    }
    MSP_ASSIGN_OR_RETURN(run_.stamp,
                         base::RunStamp::Take(options_.output_folder, base::TimestampNow()));
    if (options_.line26 && options_.line26->first_difference) {
      difference_run_.emplace(options_.output_folder, run_.stamp.text());
    }
    const FolderKind kind = FolderKindOf(options_);
    if (kind != FolderKind::kKernels && !options_.kernel_call.empty() &&
        base::Exists(options_.npu_path)) {
      return UsageError("--call needs kernel dumps")
          .WithHint("the kernel dump comes first, the dump of the call second");
    }
    MSP_RETURN_IF_ERROR(kind == FolderKind::kCalls     ? RunPairs()
                        : kind == FolderKind::kKernels ? RunKernels()
                        : kind == FolderKind::kTensors ? RunTensorFolders()
                                                       : RunFolders(kind));
    FinishSummary(run_.summary);
    run_.summary.seconds = watch_.seconds();
    run_.summary.threads = pool_.thread_count();
    if (page_) {
      MSP_RETURN_IF_ERROR(WritePage());
    }
    return std::move(run_);
  }

 private:
  Status RunPairs() {
    MSP_ASSIGN_OR_RETURN(PairingPlan plan, options_.line26
                                               ? PlanPairs26(options_)
                                               : PlanPairs(options_.npu_path, options_.bench_path));
    run_.summary.npu_only = std::move(plan.npu_only);
    run_.summary.bench_only = std::move(plan.bench_only);
    std::error_code error;
    if (fs::equivalent(options_.npu_path, options_.bench_path, error)) {
      Warn(fmt::format("both sides are the same dump, {}: nothing else was compared",
                       options_.npu_path.string()));
    }
    base::Progress progress("comparing", plan.pairs.size(), "ranks",
                            options_.quiet || plan.pairs.size() == 1);
    for (const PlannedPair& planned : plan.pairs) {
      PairSummary summary;
      Status status = RunPair(planned, summary);
      if (!status.ok()) {
        if (plan.pairs.size() == 1 || !ConcernsThisPairOnly(status.code())) {
          return status;
        }
        NoteFailure(planned, status, summary);
      }
      run_.summary.pairs.push_back(std::move(summary));
      progress.Add();
    }
    return difference_run_ ? difference_run_->Finish(run_.answers, run_.files) : OkStatus();
  }

  // Reported once for all pairs that it concerns.
  void Warn(std::string text) {
    if (!base::IsOneOf(text, run_.warnings)) {
      run_.warnings.push_back(std::move(text));
    }
  }

  void NoteFailure(const PlannedPair& planned, const Status& status, PairSummary& summary) {
    summary.npu_path = planned.input.npu_json.string();
    summary.bench_path = planned.input.bench_json.string();
    summary.step = planned.input.step;
    summary.rank = planned.input.rank;
    summary.is_debug = planned.is_debug;
    summary.error = status.message();
    run_.warnings.push_back(status.message());
  }

  // Where a side is a dump of kernels.
  Status RunKernels() {
    MSP_ASSIGN_OR_RETURN(const KernelPlan plan, PlanKernels(options_));
    run_.summary.npu_only = plan.npu_only;
    run_.summary.bench_only = plan.bench_only;
    for (const KernelPlan::Pair& planned : plan.pairs) {
      MSP_RETURN_IF_ERROR(TakePair(planned.planned, CompareKernels(options_, planned, pool_),
                                   plan.pairs.size() == 1));
    }
    return {};
  }

  // A file per tensor.
  Status RunTensorFolders() {
    MSP_ASSIGN_OR_RETURN(PairingPlan plan, PlanTensorFolders(options_));
    run_.summary.npu_only = std::move(plan.npu_only);
    run_.summary.bench_only = std::move(plan.bench_only);
    for (const PlannedPair& planned : plan.pairs) {
      MSP_RETURN_IF_ERROR(TakePair(planned, CompareTensorFolders(options_, planned, pool_),
                                   plan.pairs.size() == 1));
    }
    return {};
  }

  // The only pair must succeed; one of several may fail alone.
  Status TakePair(const PlannedPair& planned, Result<ComparedPair> pair, bool is_only) {
    PairSummary summary;
    if (pair.ok()) {
      if (!pair->call.empty()) {
        run_.calls.push_back(pair->call);
      }
      MSP_RETURN_IF_ERROR(FinishPair(planned, *pair, summary));
    } else if (is_only || !ConcernsThisPairOnly(pair.status().code())) {
      return std::move(pair).status();
    } else {
      NoteFailure(planned, pair.status(), summary);
    }
    run_.summary.pairs.push_back(std::move(summary));
    return {};
  }

  Status RunPair(const PlannedPair& planned, PairSummary& summary) {
    // Steps come in order: the weights of a step are what the step before made of them.
    const std::pair lane(planned.input.rank.value_or(-1), planned.is_debug);
    const auto before = records_.find(lane);
    const bool follows = before != records_.end() && before->second.step && planned.input.step &&
                         *before->second.step + 1 == *planned.input.step;
    MSP_ASSIGN_OR_RETURN(ComparedPair pair, ComparePair(options_, planned.input, pool_,
                                                        follows ? &before->second : nullptr));
    records_[lane] = std::move(pair.record);
    if (planned.input.step && planned.input.bench_step &&
        *planned.input.step != *planned.input.bench_step) {
      Warn(fmt::format("step {} under test is compared with step {} of the reference",
                       *planned.input.step, *planned.input.bench_step));
    }
    if (!planned.is_debug && rechecked_.count(lane) == 0 && NameWrongSide(pair, pool_)) {
      rechecked_.insert(lane);
    }
    return FinishPair(planned, pair, summary);
  }

  // Writes the files of a pair and sums it up.
  Status FinishPair(const PlannedPair& planned, ComparedPair& pair, PairSummary& summary) {
    const base::Stopwatch write_watch;
    std::vector<fs::path> files;
    if (!options_.line26 || !options_.line26->statistics_only) {
      MSP_ASSIGN_OR_RETURN(files,
                           WriteResultFiles(options_, planned, pair, run_.stamp.text(), pool_));
    }
    if (difference_run_ && !planned.is_debug) {
      MSP_RETURN_IF_ERROR(difference_run_->Add(planned, pair, files));
    }
    if (options_.line26 && options_.line26->log_rows) {
      AppendRowLog(pair, run_.log_lines);
    }
    pair.timings.write_seconds = write_watch.seconds();
    summary = SummarizePair(planned, pair);
    if (page_) {
      page_->Add(run_.summary.pairs.size(), summary, pair);
    }
    summary.files = std::move(files);
    if (pair.result.rows.empty()) {
      run_.warnings.push_back(fmt::format("{} holds no rows to compare; no result file is written",
                                          planned.input.npu_json.string()));
    }
    std::for_each(pair.warnings.begin(), pair.warnings.end(),
                  [&](std::string& warning) { Warn(std::move(warning)); });
    return {};
  }

  Status WritePage() {
    const std::string& name = options_.output_name;
    const fs::path path =
        options_.output_folder /
        fmt::format("{}_{}.html", name.empty() ? "compare_result" : name, run_.stamp.text());
    MSP_RETURN_IF_ERROR(page_->Write(path, run_.summary));
    run_.summary.page = path;
    run_.warnings.insert(run_.warnings.end(), page_->notes().begin(), page_->notes().end());
    return {};
  }

  // Folders without a dump.json: tables only.
  Status RunFolders(FolderKind kind) {
    const auto compare = kind == FolderKind::kGraph      ? CompareGraphFolders
                         : kind == FolderKind::kCommon   ? CompareCommonFolders
                         : kind == FolderKind::kTorchair ? CompareTorchair
                                                         : CompareAtb;
    MSP_ASSIGN_OR_RETURN(FolderComparison comparison, compare(options_, pool_));
    for (const FolderTable& table : comparison.tables) {
      const fs::path folder = base::Below(options_.output_folder, table.folder);
      MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
      PairSummary summary;
      summary.npu_path = base::Below(options_.npu_path, table.folder).string();
      summary.bench_path = base::Below(options_.bench_path, table.folder).string();
      summary.counts.rows = table.table.row_count();
      const FolderCounts& counts = table.counts;
      summary.counts.matched = counts.compared;
      summary.counts.identical = counts.identical;
      summary.counts.agreeing = counts.compared - counts.differing;
      summary.counts.differing = counts.differing;
      summary.counts.npu_only = counts.npu_only;
      summary.counts.bench_only = counts.bench_only;
      summary.counts.shape_mismatch = counts.mismatched;
      summary.counts.unreadable = counts.unreadable;
      if (!counts.first_differing.empty()) {
        const std::string where = comparison.tables.size() == 1 ? std::string()
                                  : table.folder.empty()        ? " of " + table.name
                                                                : " of " + table.folder.string();
        run_.answers.push_back(
            fmt::format("First differing row{}: {}", where, counts.first_differing));
      }
      if (table.is_csv) {
        summary.files.push_back(folder / (table.name + ".csv"));
        MSP_RETURN_IF_ERROR(report::WriteCsv(summary.files[0], table.table));
      } else {
        MSP_ASSIGN_OR_RETURN(
            summary.files, WriteTableFiles(options_, table.table,
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
  std::map<std::pair<int64_t, bool>, StepRecord>
      records_;  // of the last step, by rank and whether it is a debug.json
  std::set<std::pair<int64_t, bool>> rechecked_;  // later steps of a rank follow from its first
  Comparison run_;
  std::optional<DifferenceRun> difference_run_;
  std::optional<ComparePage> page_;
};

}  // namespace

Result<Comparison> Run(const Options& options) { return Runner(options).Run(); }

Result<fs::path> WriteSummary(const Options& options, const Comparison& run, int exit_code) {
  return base::WriteSummary(options.output_folder, run.stamp, SummaryJson(run.summary, exit_code));
}

}  // namespace msprobe::analysis::compare
