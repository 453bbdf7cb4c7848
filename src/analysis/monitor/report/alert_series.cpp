#include "src/analysis/monitor/report/alert_series.h"

#include <limits>

#include "src/base/number_text.h"

namespace msprobe::analysis::monitor {
namespace {

// The table whose rows a task's statistics are.
std::string_view TableOfTask(std::string_view task) {
  if (task == "pre_grad" || task == "acc_grad") {
    return "grad_unreduced";
  }
  return task == "post_grad" ? "grad_reduced" : task;
}

// A small count, or -1.
int32_t ParseCount(std::string_view text) {
  const auto number = base::ParseInt(text);
  const bool fits = number && *number >= 0 && *number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(*number) : -1;
}

}  // namespace

AlertSeriesFinder::AlertSeriesFinder(const MonitoredRun& run) {
  for (size_t i = 0; i < run.series.size(); ++i) {
    const Series& series = run.series[i];
    series_.emplace(Key(series.table, series.stage, series.name, series.micro_step),
                    static_cast<int64_t>(i));
  }
}

int64_t AlertSeriesFinder::FindKey(const Key& key) const {
  const auto place = series_.find(key);
  return place == series_.end() ? -1 : place->second;
}

int64_t AlertSeriesFinder::Find(std::string_view tag) const {
  const size_t rank = tag.rfind("/rank");
  const size_t task = tag.rfind('/');
  const size_t stage_end = tag.find(':');
  if (rank == std::string_view::npos || task <= rank || stage_end >= rank) {
    return -1;
  }
  const std::string_view table = TableOfTask(tag.substr(task + 1));
  const int32_t stage = ParseCount(tag.substr(0, stage_end));
  const std::string_view name = tag.substr(stage_end + 1, rank - stage_end - 1);
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    const int32_t micro_step = ParseCount(name.substr(colon + 1));
    for (const int32_t candidate : {micro_step, -1}) {
      const int64_t found = FindKey(Key(table, stage, name.substr(0, colon), candidate));
      if (micro_step >= 0 && found >= 0) {
        return found;
      }
    }
  }
  return FindKey(Key(table, stage, name, -1));
}

}  // namespace msprobe::analysis::monitor
