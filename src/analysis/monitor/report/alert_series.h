// From the tag of an alert to the series it is about.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "src/analysis/monitor/common/monitored_run.h"

namespace msprobe::analysis::monitor {

// Borrows names from the run.
class AlertSeriesFinder {
 public:
  explicit AlertSeriesFinder(const MonitoredRun& run);
  // Index into run.series of "0:0.norm1.output:0/rank0/actv"; -1: the run has no such series.
  int64_t Find(std::string_view tag) const;

 private:
  using Key = std::tuple<std::string_view, int32_t, std::string_view, int32_t>;
  int64_t FindKey(const Key& key) const;

  std::map<Key, int64_t> series_;
};

}  // namespace msprobe::analysis::monitor
