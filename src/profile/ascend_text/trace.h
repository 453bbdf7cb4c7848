// Trace_view.json of Ascend's profilers, in one pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/common/host_events.h"
#include "src/profile/common/trace_events.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

// When the host handed work to the queue (enqueue) and when it was taken out (dequeue): memory that
// the driver allocates belongs to the operator of the former.
class TaskQueue {
 public:
  void AddEnqueue(std::string_view correlation, Nanoseconds start);
  void AddDequeue(std::string_view correlation, Nanoseconds start, Nanoseconds end);
  // After the last event, before the first question.
  void Sort();
  // The host time of what allocated at `allocated`: 0 where its enqueue is unknown, nullopt where
  // nothing was dequeued then.
  std::optional<Nanoseconds> HostTime(Nanoseconds allocated) const;

 private:
  struct Dequeue {
    Nanoseconds start;
    Nanoseconds end;
    TextId correlation;
  };
  Texts correlations_;
  std::unordered_map<TextId, Nanoseconds> enqueued_;
  std::vector<Dequeue> dequeued_;
};

class AscendTraceReader {
 public:
  explicit AscendTraceReader(const Needs& needs) : needs_(needs) {}

  // Reads `file` and adds everything but shapes and names of groups to `profile`.
  Status Read(const std::filesystem::path& file, Profile& profile);
  // Filled when memory is needed.
  const TaskQueue& queue() const { return queue_; }

 private:
  // The role of a process, from metadata that may come anywhere in the file.
  enum class Role : uint8_t { kUnknown, kHost, kHardware, kCommunication, kOverlap };
  struct Thread {
    TextId process;
    TextId thread;
  };

  void Visit(const TraceEvent& event, Profile& profile);
  void VisitMetadata(const TraceEvent& event, Profile& profile);
  void VisitDevice(const TraceEvent& event, Profile& profile);
  bool WantsDevice(Role role) const;
  void SortDeviceEvents(Profile& profile);
  // For the communication process: group threads and the planes that follow each.
  void SortThreads(Profile& profile);
  void AddCommunication(const Kernel& event, Profile& profile);

  const Needs& needs_;
  TaskQueue queue_;
  FlowTable flows_;
  FlowTable forward_backward_;
  std::vector<Kernel> device_events_;
  std::unordered_map<TextId, Role> roles_;
  static constexpr TextId kNoProcess = UINT32_MAX;
  TextId hardware_ = kNoProcess;  // processes; the last one of a name counts
  TextId communication_ = kNoProcess;
  TextId overlap_ = kNoProcess;
  std::unordered_map<uint64_t, TextId> thread_names_;  // by process and thread
  std::vector<std::pair<Thread, int64_t>> thread_order_;
  // For the communication process: where the tasks of a thread go (group, plane), and whose
  // operators a thread holds.
  std::unordered_map<TextId, uint32_t> group_of_;
  std::unordered_map<TextId, std::pair<uint32_t, uint32_t>> plane_of_;
  uint64_t without_time_ = 0;
  bool any_known_ = false;  // an event of a kind that Ascend's traces have
};

}  // namespace msprobe::profile
