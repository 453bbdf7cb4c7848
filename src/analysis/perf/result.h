// What a run over one pair of profiles, or over the pairs of many ranks, came to: small enough to
// be kept for thousands of ranks, and to be handed on as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/perf/gates.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {

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
  UnownedTime base_unowned;
  UnownedTime comparison_unowned;
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
  base::ProcessShare share;
  // False in all but one process of a launch: that one shows the summary and writes its file.
  bool reports = true;
};

}  // namespace msprobe::analysis::perf
