// The events of a trace (Chrome's trace event format, as PyTorch's and Ascend's profilers write
// it), one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/common/event_runs.h"
#include "src/profile/common/values.h"

namespace msprobe::profile {

// Members of an event's "args" that readers ask for.
enum class Argument : uint8_t {
  kName,           // name
  kSortIndex,      // sort_index
  kShapes,         // Input Dims
  kTypes,          // Input type
  kStream,         // stream
  kDeviceId,       // Device Id
  kAddress,        // Addr
  kBytes,          // Bytes
  kTotalReserved,  // Total Reserved
  kTaskType,       // Task Type
  kTaskId,         // Task Id
  kStreamId,       // Stream Id
  kCorrelationId,  // correlation_id
  kCallStack,      // Call stack
  kCorrelation,    // correlation
  kCollective,     // Collective name
  kGroupRanks,     // Process Group Ranks
  kGroupName,      // Process Group Name
  kElements,       // In msg nelems
  kCount,
};

struct ArgumentValue {
  enum class Kind : uint8_t { kAbsent, kNull, kNumber, kText, kBool, kList };
  Kind kind = Kind::kAbsent;
  // Texts as they are, numbers in their digits, lists as Python prints them ("[[64, 3], []]").
  std::string_view text;
  // For a list: each inner list's elements joined by ',', the lists by ";\r\n", which is how
  // Ascend's profiler spells shapes; else the same as `text`.
  std::string_view joined;

  bool present() const { return kind != Kind::kAbsent; }
  std::optional<int64_t> integer() const;  // of numbers and of texts of digits
  std::optional<double> number() const;
};

// Views are valid during the call that hands the event over.
struct TraceEvent {
  // "ph": 'X' complete, 'M' metadata, 's' and 'f' ends of a flow, ...; a 'B' and its 'E' are one
  // 'X'.
  char phase = '\0';
  std::string_view name;
  std::string_view category;
  std::string_view process;  // "pid", "tid", "id": numbers in their digits
  std::string_view thread;
  std::string_view id;
  std::string_view start_text;       // "ts" as written
  std::optional<Nanoseconds> start;  // nullopt: absent or no time
  std::optional<Nanoseconds> duration;
  double duration_us = 0;  // 0 when absent
  std::array<ArgumentValue, static_cast<size_t>(Argument::kCount)> arguments;

  const ArgumentValue& argument(Argument which) const {
    return arguments[static_cast<size_t>(which)];
  }
  // The end of an event that may be trusted to have one; saturates.
  Nanoseconds end() const;
};

struct TraceOutcome {
  TraceRoot root = TraceRoot::kList;
  uint64_t events = 0;
  bool truncated = false;        // the trace broke off; all complete events before were delivered
  bool unpacks_too_far = false;  // that is since it is packed more than any trace
  uint64_t damaged = 0;          // events left out since their text is not JSON
  std::string first_damage;      // the byte and the reason of the first of them
  uint64_t joined = 0;           // pairs of 'B' and 'E' among the events
  uint64_t unpaired = 0;         // those of which only one was there; left out
};

// Events in file order; one that begins and ends apart comes when it ends. Neither a trace that
// breaks off nor an event whose text is not JSON is an error. What exporters are known to write
// wrongly is read as it was meant: bare inf and nan, backslashes, quotes and control characters
// that are not escaped, commas too many, values that are missing. `visit` returns false to stop.
Result<TraceOutcome> ForEachEvent(const std::filesystem::path& path,
                                  const std::function<bool(const TraceEvent&)>& visit);

}  // namespace msprobe::profile
