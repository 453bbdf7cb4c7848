// Compares two profiles of the same training: why one run is slower, or takes more memory, than the
// other. Every difference is comparison minus base; every ratio comparison over base; above 1 is
// worse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/overall_times.h"
#include "src/base/threads.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// Shares of the time from the first to the last work, in ms. They are parts of a whole: end_to_end
// is the sum of the four below it, none is negative.
struct TimeSplit {
  bool of_host =
      false;  // no device was profiled: computing is the time in operators, idle the rest
  double end_to_end = 0;
  double computing = 0;
  double communication = 0;  // while nothing computes
  double copies = 0;         // while nothing computes or communicates
  double idle = 0;
};

// Device time (ms, overlap counted twice) that no operator of the profile can be charged with.
struct UnattributedTime {
  double device = 0;  // all device time, for comparison
  double graphs = 0;  // kernels of graphs that were launched outside of operators
  double copies = 0;
  double earlier = 0;  // launched before the profile began
  double outside = 0;  // launched outside of operators
  double unknown = 0;  // their launch is not known
  double total() const { return graphs + copies + earlier + outside + unknown; }
};

// The answer in one line: "SLOWER by 12.4 % (99.2 -> 111.5 ms), mostly aten::mm: +11.0 ms".
struct Verdict {
  std::string word;    // SLOWER, SAME, FASTER; empty: unknown
  double percent = 0;  // of the end-to-end time, per step where the sides hold unequal numbers
  std::string text;
};

// A regression or gain.
struct Finding {
  std::string where;       // "aten::mm in MmBackward0 under nn.Module: MLP (backward)"
  std::string metric;      // see findings.h
  std::string note;        // in which respect it changed: calls, shapes, kernels; may be empty
  std::string call_stack;  // of the first such call or module, outermost first; empty if unknown
  double base = 0;         // ms or MB
  double comparison = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

// Kernels of one name, or of one family (the name is empty), on the device.
struct KernelChange {
  std::string family;
  std::string name;
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
  int64_t added = 0;  // kernels of a family that only the comparison ran
  int64_t removed = 0;
};

// Collectives of one kind, of any library.
struct Collective {
  std::string kind;  // "all_reduce"
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

// Device time of the operators that match a pattern, with everything below them; one inside of
// another counts once.
struct Watched {
  std::string pattern;
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

// The result of one pair of profiles.
struct PairComparison {
  profile::Device base_device = profile::Device::kGpu;
  profile::Device comparison_device = profile::Device::kGpu;
  std::optional<OverallTimes> base_times;  // when overall was asked for
  std::optional<OverallTimes> comparison_times;
  // When overall was asked for and the times are known: to the nanosecond, all streams.
  std::optional<TimeSplit> base_split;
  std::optional<TimeSplit> comparison_split;
  std::optional<UnattributedTime> base_unowned;  // of sides with device work
  std::optional<UnattributedTime> comparison_unowned;
  bool base_communicates = false;  // holds collectives
  bool comparison_communicates = false;
  Verdict verdict;
  std::vector<report::FormattedTable> sheets;  // in workbook order; only those with rows
  std::vector<KernelChange> kernel_families;
  std::vector<KernelChange> kernel_changes;  // largest difference first
  report::FormattedTable kernel_table;       // beside the workbook; empty: no kernels
  std::vector<Finding> findings;
  std::vector<Collective> collectives;  // largest difference first
  std::vector<Watched> watched;         // as options.watched_operators
  std::vector<std::string> warnings;
};

// Reads both sides side by side and compares what `options` ask for. What one part of it lacks (no
// kernels, no memory events) is a warning; an error when nothing is left to compare.
Result<PairComparison> ComparePair(const PairOptions& options, base::ThreadPool& pool);

}  // namespace msprobe::analysis::perf
