#include "src/analysis/compare/run_compare.h"

#include <chrono>

#include <fmt/format.h>

#include "src/analysis/compare/common_folders.h"
#include "src/analysis/compare/graph_folders.h"
#include "src/analysis/compare/junit.h"
#include "src/analysis/compare/result_files.h"
#include "src/analysis/compare/summary_json.h"
#include "src/base/files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/report/writers.h"

namespace msprobe::analysis {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Errors after which the other pairs still make sense; anything else (a full disk) would only
// repeat.
bool ConcernsThisPairOnly(StatusCode code) {
  return code == StatusCode::kBadFormat || code == StatusCode::kNotFound ||
         code == StatusCode::kUnsupported || code == StatusCode::kMismatch;
}

class Runner {
 public:
  explicit Runner(const CompareOptions& options)
      : options_(options),
        pool_(options.threads),
        stamp_(base::TimestampNow()),
        start_(Clock::now()) {}

  Result<CompareRun> Run() {
    MSP_RETURN_IF_ERROR(base::CreateFolders(options_.output_folder));
    if (options_.rank_ids || options_.common_folders) {
      MSP_RETURN_IF_ERROR(RunFolders());
    } else {
      MSP_RETURN_IF_ERROR(RunPairs());
    }
    FinishSummary(run_.summary);
    run_.summary.seconds = SecondsSince(start_);
    run_.summary.threads = pool_.thread_count();
    return std::move(run_);
  }

 private:
  Status RunPairs() {
    MSP_ASSIGN_OR_RETURN(PairingPlan plan, PlanPairs(options_.npu_path, options_.bench_path));
    run_.summary.npu_only = std::move(plan.npu_only);
    run_.summary.bench_only = std::move(plan.bench_only);
    base::Progress progress("comparing", plan.pairs.size(), "ranks",
                            options_.quiet || plan.pairs.size() == 1);
    for (const PlannedPair& planned : plan.pairs) {
      PairSummary summary;
      Status status = RunPair(planned, summary);
      if (!status.ok()) {
        if (plan.pairs.size() == 1 || !ConcernsThisPairOnly(status.code())) {
          return status;
        }
        summary.npu_path = planned.input.npu_json.string();
        summary.bench_path = planned.input.bench_json.string();
        summary.step = planned.input.step;
        summary.rank = planned.input.rank;
        summary.is_debug = planned.is_debug;
        summary.error = status.message();
        run_.warnings.push_back(status.message());
      }
      run_.summary.pairs.push_back(std::move(summary));
      progress.Add();
    }
    return {};
  }

  Status RunPair(const PlannedPair& planned, PairSummary& summary) {
    MSP_ASSIGN_OR_RETURN(ComparedPair pair, ComparePair(options_, planned.input, pool_));
    const Clock::time_point write_start = Clock::now();
    MSP_ASSIGN_OR_RETURN(std::vector<fs::path> files,
                         WriteResultFiles(options_, planned, pair, stamp_, pool_));
    pair.timings.write_seconds = SecondsSince(write_start);
    summary = SummarizePair(planned, pair);
    summary.files = std::move(files);
    if (pair.result.rows.empty()) {
      run_.warnings.push_back(fmt::format("{} holds no rows to compare; no result file is written",
                                          planned.input.npu_json.string()));
    }
    run_.warnings.insert(run_.warnings.end(), pair.warnings.begin(), pair.warnings.end());
    return {};
  }

  // MindSpore folders without a dump.json: tables only.
  Status RunFolders() {
    MSP_ASSIGN_OR_RETURN(FolderComparison comparison, options_.rank_ids
                                                          ? CompareGraphFolders(options_, pool_)
                                                          : CompareCommonFolders(options_, pool_));
    for (const FolderTable& table : comparison.tables) {
      const fs::path folder = options_.output_folder / table.folder;
      MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
      PairSummary summary;
      summary.npu_path = (options_.npu_path / table.folder).string();
      summary.bench_path = (options_.bench_path / table.folder).string();
      summary.counts.rows = table.table.row_count();
      if (table.is_csv) {
        summary.files.push_back(folder / (table.name + ".csv"));
        MSP_RETURN_IF_ERROR(report::WriteCsv(summary.files[0], table.table));
      } else {
        MSP_ASSIGN_OR_RETURN(
            summary.files,
            WriteTableFiles(options_, table.table,
                            folder / fmt::format("{}_{}{}", table.name, stamp_, table.name_end),
                            table.styled_header, pool_));
      }
      run_.summary.pairs.push_back(std::move(summary));
    }
    run_.warnings = std::move(comparison.warnings);
    return {};
  }

  const CompareOptions& options_;
  base::ThreadPool pool_;
  const std::string stamp_;
  const Clock::time_point start_;
  CompareRun run_;
};

}  // namespace

Result<CompareRun> RunCompare(const CompareOptions& options) { return Runner(options).Run(); }

Status WriteRunReports(const CompareOptions& options, const CompareRun& run, int exit_code) {
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(options.output_folder / "summary.json",
                                                SummaryJson(run.summary, exit_code)));
  if (!options.junit_file.empty()) {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(options.junit_file, JunitXml(run.summary)));
  }
  return {};
}

}  // namespace msprobe::analysis
