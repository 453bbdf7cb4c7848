// A whole run of perf_compare: finds the profiles of both paths, pairs them by rank, compares each
// pair, writes the files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {

// Conditions under which a comparison fails in CI: "e2e>5%", "op:*matmul*>10%", "memory>1GB".

// A usage error names what is wrong with the text.
Result<Gate> ParseGate(std::string_view text);

// The result of a gate. An unknown value fails: silence must not pass for health.
struct GateOutcome {
  std::string gate;
  bool failed = false;
  std::string explanation;  // "e2e 151.2 -> 163.5 ms: +8.1 %, allowed 5 %"
};

// `comparison` must hold overall times for the metrics they give, and in `watched` each pattern.
GateOutcome Judge(const Gate& gate, const PairComparison& comparison);

// The result of a run over one pair of profiles, or over the pairs of many ranks: small enough to
// be kept for thousands of ranks, and to be handed on as JSON.

struct SideTimes {  // ms, GB
  double end_to_end_ms = 0;
  double computing_ms = 0;
  double uncovered_communication_ms = 0;
  double wait_ms = 0;
  double free_ms = 0;
  double memory_gb = 0;
  double copies_ms = 0;  // part of free_ms: copies and fills that nothing else hides
};

struct RankSummary {
  std::optional<int64_t> rank;  // nullopt: one pair of profiles, not one of many
  std::string base_path;
  std::string comparison_path;
  std::string base_device;  // "GPU" or "NPU"; empty where the pair failed
  std::string comparison_device;
  Verdict verdict;
  bool has_times = false;
  bool of_host = false;  // no device was profiled: computing is the time in operators
  SideTimes base;
  SideTimes comparison;
  bool has_unowned = false;
  UnattributedTime base_unowned;
  UnattributedTime comparison_unowned;
  std::vector<Finding> findings;
  std::vector<Collective> collectives;
  std::vector<KernelChange> kernel_families;
  std::vector<KernelChange> kernels;
  std::vector<GateOutcome> gates;
  std::vector<std::string> warnings;
  std::vector<std::string> files;
  std::string error;  // why there is no result
  double seconds = 0;
};

RankSummary Summarize(const PairComparison& comparison);

// How evenly ranks share a kind of time.
struct Spread {
  std::optional<int64_t> slowest_rank;
  double slowest_ms = 0;
  double mean_ms = 0;
  // How much longer the slowest takes than the mean: 0 is perfectly even.
  double imbalance() const { return mean_ms > 0 ? slowest_ms / mean_ms - 1 : 0; }
};

struct RunSummary {
  std::vector<RankSummary> ranks;  // by rank
  std::vector<int64_t> base_only;  // ranks without a partner
  std::vector<int64_t> comparison_only;
  std::vector<int64_t> missing;  // ranks whose process did not deliver
  double seconds = 0;
};

Spread SpreadOf(const RunSummary& run, SideTimes RankSummary::*side, double SideTimes::*time);
// The rank whose time grew most, and by how much; nullopt where no times are known.
struct Growth {
  std::optional<int64_t> rank;
  double ms = 0;
};
std::optional<Growth> LargestGrowth(const RunSummary& run, double SideTimes::*time);

bool AnyRankFailed(const RunSummary& run);

struct RunResult {
  base::RunStamp stamp;  // in the names of all its files
  RunSummary summary;
  std::optional<report::Table> overall;  // of a single pair whose times are known
  // False in all but one process of a launch: that one shows the summary and writes its file.
  bool reports = true;
};

// The summary of a run as JSON, for programs; and back, for the parts that processes hand on.

// summary.json, described in docs/commands/perf_compare.md.
std::string SummaryJson(const RunSummary& run, int exit_code);

// summary.json in the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const Options& options, const RunResult& run,
                                           int exit_code);

// The ranks of one of its texts. Keys that are not known are left out.
Result<std::vector<RankSummary>> ParseRanks(std::string_view text);

// The files of one comparison: a workbook under the Python tool's name, and its sheets as text.

// performance_comparison_result_<stamp>[_rankN]
std::filesystem::path ResultStem(const std::filesystem::path& folder, const std::string& stamp,
                                 const std::optional<int64_t>& rank);

// {stem}.xlsx, {stem}_Kernels.csv, {stem}_{sheet}.csv and {stem}_{sheet}.jsonl. Columns of the text
// files are named after their side: "Base Calls", "Comparison Calls". Returns the paths.
Result<std::vector<std::filesystem::path>> WriteResultFiles(const PairComparison& comparison,
                                                            const std::filesystem::path& stem,
                                                            const ResultFormats& formats,
                                                            base::ThreadPool& pool);

// The summaries of ranks that the processes of one launch compared, handed to the first of them.

// As one process hands it to another (base/shared_run.h): as summary.json has it.
template <typename Archive>
void PackMembers(Archive& archive, RankSummary& rank) {
  constexpr bool kReads = requires { archive.Fail(); };
  std::string text;
  if constexpr (!kReads) {
    RunSummary alone;
    alone.ranks.push_back(rank);
    text = SummaryJson(alone, 0);
  }
  archive(text);
  if constexpr (kReads) {
    Result<std::vector<RankSummary>> ranks = ParseRanks(text);
    if (!ranks.ok() || ranks->size() != 1) {
      archive.Fail();
      return;
    }
    rank = std::move(ranks->front());
  }
}

// A single pair that cannot be compared is an error; one of many is marked and the others go on.
// Memory holds one pair of profiles at a time, and a summary of each pair. Under a launcher (srun,
// mpirun) each process compares its share of the pairs, and the first one collects the summaries.
Result<RunResult> Run(const Options& options);

}  // namespace msprobe::analysis::perf
