// The differences that matter, as an answer to "what got slower": which operators, in which
// modules, or what the device did instead.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/analysis/perf/work_groups.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// Why a device had nothing to do. A gap is charged to what the thread did that launched the next
// work: other threads may have been busy, but the device was not waiting for them.

// The time in which nothing ran on the device, by what the host did meanwhile in the thread that
// launched the next work; the sum is TimeSplit::idle. `calls` counts gaps.
std::map<std::string, Amount> IdleTimeByCause(const DeviceWork& work);

// Device time of the operators that a pattern names.

// A side of a GPU by its device work, where kernels of graphs and of driver calls have their
// operator; of an NPU (`work` is null) by its operators, to which collectives are linked, too.
struct WatchedSide {
  const OperatorSide* operators = nullptr;
  const DeviceWork* work = nullptr;
  std::optional<std::string> step;  // of its operators only
};

// One per pattern, in order.
std::vector<Watched> WatchOperators(const WatchedSide& base, const WatchedSide& comparison,
                                    std::span<const std::string> patterns);

// Names of Finding::metric.
inline constexpr std::string_view kDeviceTime = "device time";           // of computing
inline constexpr std::string_view kCommunicationTime = "communication";  // not hidden by computing
inline constexpr std::string_view kCopyTime = "copies";                  // not hidden by anything
inline constexpr std::string_view kIdleTime = "idle";                    // of the device
inline constexpr std::string_view kHostTime = "host time";   // of calls, without callees
inline constexpr std::string_view kMemoryMetric = "memory";  // MB

// One side as far as it is known; null where it was not asked for or not profiled.
struct SideView {
  const profile::Profile* profile = nullptr;
  const HostTree* tree = nullptr;
  const DeviceWork* work = nullptr;
  const OperatorSide* operators = nullptr;  // for memory
  std::optional<std::string> step;          // what the host did in it only
};

// Findings of all metrics; of each up to `most`. First those of device time, communication, copies
// and idle time together, the largest first; then host time, then memory. Where no device was
// profiled host time takes their place. What makes up less than a thousandth of its metric's sum is
// noise and left out.
std::vector<Finding> FindDifferences(const SideView& base, const SideView& comparison,
                                     const PairOptions& options, size_t most = 20);

// The share of the end-to-end time (a metric above) whose change goes furthest in the direction in
// which the whole went.
std::string_view LeadingShare(const TimeSplit& base, const TimeSplit& comparison);

// Moves the largest finding of that share to the front.
void LeadWithLeadingShare(const TimeSplit& base, const TimeSplit& comparison,
                          std::vector<Finding>& findings);

// `base_steps`, `comparison_steps`: how many step markers the sides hold, 0: unknown.
Verdict Judge(const TimeSplit& base, const TimeSplit& comparison, size_t base_steps,
              size_t comparison_steps, const std::vector<Finding>& findings);

// "+12.3 ms"; four digits below a tenth of a millisecond.
std::string SignedMs(double ms);

// A run that is as fast as before but takes clearly more (or less) memory: that becomes part of the
// verdict, and its largest finding the first one.
void ReportMemory(double base_gb, double comparison_gb, Verdict& verdict,
                  std::vector<Finding>& findings);

}  // namespace msprobe::analysis::perf
