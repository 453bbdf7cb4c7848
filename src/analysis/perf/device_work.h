// All work of the device with its launch: the basis of the answer. All streams count, copies and
// fills too.
//
// A kernel is attributed to the host by the correlation number that it shares with a runtime call;
// without one by the profiler's arrow that ends at its start. The innermost call around that point
// of the launching thread (HostTree) names its operator. Kernels of a graph share the launch of the
// graph. Work without either goes by the numbering of launches: below the first number of the
// profile it was launched before the profile began.
//
// Time is split without overlap: communication counts where nothing computes, copies where nothing
// computes or communicates, and the rest is idle.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/perf/nesting.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

enum class WorkKind : uint8_t { kComputing, kCommunication, kCopy };

// What work is attributed to.
enum class Owner : uint8_t {
  kOperator,      // launched inside of an operator
  kGraph,         // launched by a graph that no operator launched
  kCopy,          // a copy or fill that no operator asked for
  kBeforeWindow,  // launched before the profile (or the chosen step) began
  kUnattributed,  // launched by code outside of operators
  kUnknown        // its launch is not known
};
inline constexpr size_t kOwnerCount = 6;

struct WorkItem {
  profile::Nanoseconds start = 0;
  profile::Nanoseconds end = 0;
  double us = 0;                      // as the file gives it
  double uncovered_us = 0;            // communication: not hidden behind computing; copies: nor
                                      // behind communication; computing: all of it
  profile::Nanoseconds launched = 0;  // on the host, where has_launch
  profile::TextId name = profile::kNoText;
  profile::TextId process = profile::kNoText;  // of the launch
  profile::TextId thread = profile::kNoText;
  uint32_t node = HostTree::kNone;  // the innermost around the launch
  uint32_t kernel = UINT32_MAX;     // into Profile::kernels, of those
  WorkKind kind = WorkKind::kComputing;
  Owner owner = Owner::kUnknown;
  bool has_launch = false;
  bool by_graph = false;
};

// Intervals without overlap, rising.
class BusyTime {
 public:
  // Must come with rising starts.
  void Add(profile::Nanoseconds start, profile::Nanoseconds end);
  profile::Nanoseconds total() const { return total_; }
  // How much of [from, to) is busy.
  profile::Nanoseconds Within(profile::Nanoseconds from, profile::Nanoseconds to) const;
  std::span<const profile::Interval> intervals() const { return intervals_; }

 private:
  std::vector<profile::Interval> intervals_;
  std::vector<profile::Nanoseconds> before_;  // busy time in front of each interval
  profile::Nanoseconds total_ = 0;
};

class DeviceWork {
 public:
  // With `step`, of a GPU's trace, only the work launched in a step marker of that number. Work
  // without a known launch is attributed to the preceding launch, or by its own start where
  // launches are not numbered.
  DeviceWork(const profile::Profile& side, const HostTree& tree,
             const std::optional<std::string>& step);

  const profile::Profile& profile() const { return *profile_; }
  const HostTree& tree() const { return *tree_; }
  std::span<const WorkItem> items() const { return items_; }  // rising by start
  const TimeSplit& split() const { return split_; }
  const BusyTime& busy() const { return busy_; }
  // Device time by owner, in ms: the sum over all work, overlap counted twice.
  double owned_ms(Owner owner) const { return owned_ms_[static_cast<size_t>(owner)]; }
  double total_ms() const;

 private:
  void Gather();
  void Link();
  void KeepStep(const std::string& step);
  void Split();

  const profile::Profile* profile_;
  const HostTree* tree_;
  std::vector<WorkItem> items_;
  TimeSplit split_;
  BusyTime busy_;
  std::array<double, kOwnerCount> owned_ms_{};
};

}  // namespace msprobe::analysis::perf
