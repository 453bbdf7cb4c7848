// What ran on the device, each piece with what started it: the basis of the answer. All streams
// count, copies and fills too, kernels of graphs belong to the launch of the graph.
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

// Whose work it is.
enum class Owner : uint8_t {
  kOperator,  // launched inside of an operator
  kGraph,     // launched by a graph that no operator launched
  kCopy,      // a copy or fill that no operator asked for
  kEarlier,   // launched before the profile (or the chosen step) began
  kOutside,   // launched by code outside of operators
  kUnknown    // nothing tells what launched it
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
  // With `step` only what was launched in a step marker of that number; of a GPU's trace. Work that
  // nothing on the host is known to have launched goes by the launch before it, or by its own start
  // where launches are not numbered.
  DeviceWork(const profile::Profile& side, const HostTree& tree,
             const std::optional<std::string>& step);

  const profile::Profile& profile() const { return *profile_; }
  const HostTree& tree() const { return *tree_; }
  std::span<const WorkItem> items() const { return items_; }  // rising by start
  const TimeSplit& split() const { return split_; }
  const BusyTime& busy() const { return busy_; }
  // Device time by whose it is, in ms: the sum over all work, overlap counted twice.
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
