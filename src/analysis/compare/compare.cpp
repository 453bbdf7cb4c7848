// The whole run of `compare`.
//
// Finds out what was given (dumps, files, folders of other tools), plans the pairs, and compares
// one pair after the other, so that the rows of only one pair are in memory. Steps come in
// order, since a step is judged with what the step before it left (step_record). Each pair is
// summed up, written, and added to the page; where both sides hold tensors, the first diverging
// call is recomputed in higher precision to say which side is wrong.
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

#include "src/analysis/compare/first_difference.h"
#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/folders/torchair.h"
#include "src/analysis/compare/page/compare_page.h"
#include "src/analysis/compare/result_files.h"
#include "src/analysis/compare/result_table.h"
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

// A run: which dumps are compared (a plan of pairs, or folders whose comparison makes tables), one
// after the other, and what each adds to the answer.
class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), pool_(options.threads) {
    if (options.output.html) {
      page_.emplace(pool_);
    }
  }

  Result<Comparison> Run() {
    if (page_) {
      MSP_RETURN_IF_ERROR(ComparePage::Available());
    }
    MSP_ASSIGN_OR_RETURN(run_.stamp,
                         base::RunStamp::Take(options_.output.folder, base::TimestampNow()));
    if (options_.output.first_difference) {
      difference_run_.emplace(options_.output.folder, run_.stamp.text());
    }
    const FolderKind kind = FolderKindOf(options_);
    if (kind != FolderKind::kKernels && !options_.folders.kernel_call.empty() &&
        base::Exists(options_.npu_path)) {
      return UsageError("--call needs kernel dumps")
          .WithHint("the kernel dump comes first, the dump of the call second");
    }
    MSP_RETURN_IF_ERROR(RunKind(kind));
    FinishSummary(run_.summary);
    run_.summary.seconds = watch_.seconds();
    run_.summary.threads = pool_.thread_count();
    if (page_) {
      MSP_RETURN_IF_ERROR(WritePage());
    }
    return std::move(run_);
  }

 private:
  Status RunKind(FolderKind kind) {
    switch (kind) {
      case FolderKind::kCalls: {
        MSP_ASSIGN_OR_RETURN(const PairingPlan plan,
                             PlanPairs(options_.npu_path, options_.bench_path, options_.edition()));
        std::error_code error;
        if (fs::equivalent(options_.npu_path, options_.bench_path, error)) {
          Warn(fmt::format("both sides are the same dump, {}: nothing else was compared",
                           options_.npu_path.string()));
        }
        MSP_RETURN_IF_ERROR(
            RunPairs(plan, [&](const PlannedPair& planned) { return ComparePlanned(planned); }));
        return difference_run_ ? difference_run_->Finish(run_.answers, run_.files) : OkStatus();
      }
      case FolderKind::kKernels: {
        MSP_ASSIGN_OR_RETURN(const KernelPlan plan, PlanKernels(options_));
        return RunPairs(plan, [&](const KernelRunPair& planned) {
          return CompareKernels(options_, planned, pool_);
        });
      }
      case FolderKind::kTensors: {
        MSP_ASSIGN_OR_RETURN(const PairingPlan plan, PlanTensorFolders(options_));
        return RunPairs(plan, [&](const PlannedPair& planned) {
          return CompareTensorFolders(options_, planned, pool_);
        });
      }
      case FolderKind::kGraph:
        return WriteTables(CompareGraphFolders(options_, pool_));
      case FolderKind::kCommon:
        return WriteTables(CompareCommonFolders(options_, pool_));
      case FolderKind::kTorchair:
        return WriteTables(CompareTorchair(options_, pool_));
      case FolderKind::kAtb:
        break;
    }
    return WriteTables(CompareAtb(options_, pool_));
  }

  // `compare` makes a Result<ComparedPair> of each pair of the plan. The only pair must succeed; of
  // several each may fail alone.
  template <typename Plan, typename Compare>
  Status RunPairs(const Plan& plan, const Compare& compare) {
    run_.summary.npu_only = plan.npu_only;
    run_.summary.bench_only = plan.bench_only;
    base::Progress progress("comparing", plan.pairs.size(), "ranks",
                            options_.quiet || plan.pairs.size() == 1);
    for (const auto& planned : plan.pairs) {
      Result<PairSummary> summary = RunPair(planned, compare(planned));
      if (!summary.ok()) {
        if (plan.pairs.size() == 1 || !base::ConcernsOneInput(summary.status())) {
          return std::move(summary).status();
        }
        summary = FailedPair(planned, summary.status());
      }
      run_.summary.pairs.push_back(*std::move(summary));
      progress.Add();
    }
    return OkStatus();
  }

  // Reported once for all pairs that it concerns.
  void Warn(std::string text) {
    if (!base::IsOneOf(text, run_.warnings)) {
      run_.warnings.push_back(std::move(text));
    }
  }

  PairSummary FailedPair(const PlannedPair& planned, const Status& status) {
    PairSummary summary;
    summary.npu_path = planned.input.npu_json.string();
    summary.bench_path = planned.input.bench_json.string();
    summary.step = planned.input.step;
    summary.rank = planned.input.rank;
    summary.is_debug = planned.is_debug;
    summary.error = status.message();
    run_.warnings.push_back(status.message());
    return summary;
  }

  // Compares two dump.json or debug.json. Steps come in order: a step starts from the weights that
  // the step before it left.
  Result<ComparedPair> ComparePlanned(const PlannedPair& planned) {
    const PairInput& input = planned.input;
    const std::pair lane(input.rank.value_or(-1), planned.is_debug);
    const auto before = records_.find(lane);
    const bool follows = before != records_.end() && before->second.step && input.step &&
                         *before->second.step + 1 == *input.step;
    MSP_ASSIGN_OR_RETURN(ComparedPair pair,
                         ComparePair(options_, input, pool_, follows ? &before->second : nullptr));
    records_[lane] = std::move(pair.record);
    if (input.step && input.bench_step && *input.step != *input.bench_step) {
      Warn(fmt::format("step {} of the test is compared with step {} of the reference", *input.step,
                       *input.bench_step));
    }
    if (!planned.is_debug && rechecked_.count(lane) == 0 && NameWrongSide(pair, pool_)) {
      rechecked_.insert(lane);
    }
    return pair;
  }

  // Writes the files of a pair and sums it up.
  Result<PairSummary> RunPair(const PlannedPair& planned, Result<ComparedPair> compared) {
    MSP_ASSIGN_OR_RETURN(ComparedPair pair, std::move(compared));
    const base::Stopwatch write_watch;
    if (!pair.call.empty()) {
      run_.calls.push_back(pair.call);
    }
    std::vector<fs::path> files;
    if (!options_.v26 || !options_.v26->statistics_only) {
      MSP_ASSIGN_OR_RETURN(
          files, WriteResultFiles(options_.output, planned, pair, run_.stamp.text(), pool_));
    }
    if (difference_run_ && !planned.is_debug) {
      MSP_RETURN_IF_ERROR(difference_run_->Add(planned, pair, files));
    }
    if (options_.output.log_rows) {
      AppendRowLog(pair.npu, pair.bench, pair.result, run_.log_lines);
    }
    pair.timings.write_seconds = write_watch.seconds();
    PairSummary summary = SummarizePair(planned, pair);
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
    return summary;
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
  return base::WriteSummary(options.output.folder, run.stamp, SummaryJson(run.summary, exit_code));
}

}  // namespace msprobe::analysis::compare
