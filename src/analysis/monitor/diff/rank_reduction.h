// Inside of the room: one value per name and step out of those of many ranks, so that runs on
// different numbers of ranks, or with other shards, can be compared at all. What the values alone
// do not tell (which ranks hold copies) comes from monitor.json, or from digits that are all equal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/monitor/common/monitored_run.h"

namespace msprobe::analysis::monitor::internal {

// Whether values of several ranks can be made one.
bool IsReducible(std::string_view op);
// Unreduced gradients of data-parallel ranks are parts of a sum, which no norm tells.
bool IsReducibleTable(std::string_view table);

class RankReduction {
 public:
  explicit RankReduction(const MonitoredRun& run);

  // The series with one row per step, of rank -1; ops that cannot be reduced are left out.
  Series Reduce(const Series& series) const;
  // Of the rank's pipeline group; 0 when not told.
  int64_t PipelineStage(int32_t rank) const;

 private:
  void KeepRepresentatives(const Series& series, std::vector<size_t>& rows) const;

  std::map<int32_t, int32_t> representatives_;  // of data-parallel groups, by rank
  std::map<int32_t, int64_t> stages_;
};

}  // namespace msprobe::analysis::monitor::internal
