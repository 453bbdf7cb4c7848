// Inside of the room: the host's calls of an Ascend database, what they launched, and what was
// allocated under them.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/ascend_database/tables.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

class DatabaseHost {
 public:
  explicit DatabaseHost(DatabaseTables& tables) : tables_(tables) {}

  // Operators, python calls and the task queue.
  Status Read();
  // Links kernel k, an index of the profile's, to the operators of connection connections[k].
  void Launch(const std::vector<std::optional<int64_t>>& connections);
  Status ReadMemory();

 private:
  struct QueuePair {
    std::optional<Nanoseconds> enqueued;
    std::optional<std::pair<Nanoseconds, Nanoseconds>> dequeued;
  };

  Status ReadConnections();
  void AddOperators(const database::SqliteRow& row);
  void LinkForwardBackward();
  std::vector<QueuePair> QueueByDequeue() const;

  DatabaseTables& tables_;
  // By the number that a call refers to; equal ones in file order.
  std::vector<std::pair<int64_t, int64_t>> connection_ids_;
  // Of each operator: the call it stands for. A call with several connections is several operators.
  std::vector<uint32_t> call_of_;
  uint32_t calls_ = 0;
  uint64_t without_time_ = 0;
  std::vector<std::pair<int64_t, uint32_t>> operators_by_connection_;
  std::unordered_map<int64_t, QueuePair> queue_;
};

}  // namespace msprobe::profile
