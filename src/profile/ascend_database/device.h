// Inside of the room: what the device of an Ascend database did: kernels, collectives and their
// tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/ascend_database/tables.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

class DatabaseDevice {
 public:
  explicit DatabaseDevice(DatabaseTables& tables) : tables_(tables) {}

  Status Read();
  // Of each kernel of the profile: the connection of the operator that launched it.
  const std::vector<std::optional<int64_t>>& connections() const { return connections_; }

 private:
  struct ComputeInfo {
    int64_t id;
    TextId name;
    TextId core_type;
    TextId type;
    TextId shapes;
  };
  struct CommunicationInfo {
    int64_t id;
    TextId name;
    TextId plane;
    int64_t operation;
  };
  // A row of TASK that something refers to, with its measurements.
  struct Task {
    Nanoseconds start = 0;
    Nanoseconds end = -1;  // -1: there is no such row
    std::optional<int64_t> connection;
    bool runs_on_cube = false;  // by the type of the task
    bool is_measured = false;
    double aicore_us = 0;
    double mac_us = 0;
    double cube_us = 0;
    double load_us = 0;
    double vector_core_us = 0;
    double vector_us = 0;
  };

  Status ReadInfos();
  Status ReadTasks();
  Status ReadMeasurements();
  Status ReadCollectives();
  void AddKernels();
  void AddCommunicationTasks();
  void AddStatistics();
  void SetIntervals();

  DatabaseTables& tables_;
  std::vector<ComputeInfo> compute_;
  std::vector<CommunicationInfo> communication_;
  std::unordered_map<int64_t, Task> tasks_;
  std::unordered_map<int64_t, int64_t> operations_;  // by the file's number: that of the profile
  std::vector<std::optional<int64_t>> connections_;
  std::vector<Interval> kernel_times_;
  std::vector<Interval> collective_times_;
  std::vector<KernelDetail> details_;
};

}  // namespace msprobe::profile
