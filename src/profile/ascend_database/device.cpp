#include "src/profile/ascend_database/device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::profile {
namespace {

using Intervals = std::vector<Interval>;

Interval IntervalOf(Nanoseconds start, Nanoseconds end) {
  return {start, end, MicrosecondsOf(end - start)};
}

// Overlapping ones become one; in rising order.
Intervals UnionOf(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  Intervals merged;
  for (const Interval& interval : intervals) {
    if (merged.empty() || interval.start > merged.back().end) {
      merged.push_back(interval);
    } else if (interval.end > merged.back().end) {
      merged.back() = IntervalOf(merged.back().start, interval.end);
    }
  }
  return merged;
}

// What of `whole` lies outside of `cut`; both as UnionOf gives them.
Intervals Without(const Intervals& whole, const Intervals& cut) {
  Intervals rest;
  size_t next = 0;
  for (const Interval& interval : whole) {
    Nanoseconds at = interval.start;
    while (next < cut.size() && cut[next].end <= at) {
      ++next;
    }
    for (size_t hole = next; hole < cut.size() && cut[hole].start < interval.end; ++hole) {
      if (cut[hole].start > at) {
        rest.push_back(IntervalOf(at, cut[hole].start));
      }
      at = std::max(at, cut[hole].end);
      next = hole;
    }
    if (at < interval.end) {
      rest.push_back(IntervalOf(at, interval.end));
    }
  }
  return rest;
}

}  // namespace

Status DatabaseDevice::Read() {
  const Needs& needs = tables_.needs();
  MSP_RETURN_IF_ERROR(ReadInfos());
  MSP_RETURN_IF_ERROR(ReadTasks());
  if (needs.kernel_details) {
    MSP_RETURN_IF_ERROR(ReadMeasurements());
  }
  AddKernels();
  if (needs.communication || needs.overlap) {
    MSP_RETURN_IF_ERROR(ReadCollectives());
  }
  if (needs.communication) {
    AddCommunicationTasks();
  }
  if (needs.operator_statistics) {
    AddStatistics();
  }
  if (needs.overlap) {
    SetIntervals();
  }
  Profile& profile = tables_.profile();
  if (needs.kernel_details) {
    profile.kernel_details = std::move(details_);
    profile.has_kernel_metrics = !profile.kernel_details.empty();
  }
  return {};
}

Status DatabaseDevice::ReadInfos() {
  const Needs& needs = tables_.needs();
  if (needs.kernels || needs.flows || needs.kernel_details || needs.operator_statistics ||
      needs.overlap) {
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "COMPUTE_TASK_INFO", {"globalTaskId", "name", "?taskType", "?opType", "?inputShapes"},
        [&](const database::SqliteRow& row) {
          const int64_t id = row.Integer(0);
          compute_.push_back({id, tables_.Text(row, 1), tables_.Text(row, 2), tables_.Text(row, 3),
                              tables_.Text(row, 4)});
          tasks_.try_emplace(id);
        }));
  }
  if (needs.communication && tables_.HasTable("COMMUNICATION_TASK_INFO")) {
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "COMMUNICATION_TASK_INFO", {"globalTaskId", "taskType", "?planeId", "opId"},
        [&](const database::SqliteRow& row) {
          const int64_t id = row.Integer(0);
          const TextId plane = tables_.profile().texts.Intern(row.Text(2));
          communication_.push_back({id, tables_.Text(row, 1), plane, row.Integer(3)});
          tasks_.try_emplace(id);
        }));
  }
  return {};
}

Status DatabaseDevice::ReadTasks() {
  if (tasks_.empty()) {
    return {};
  }
  uint64_t without_time = 0;
  MSP_RETURN_IF_ERROR(tables_.ForEachRow(
      "TASK", {"globalTaskId", "startNs", "endNs", "?connectionId", "?taskType"},
      [&](const database::SqliteRow& row) {
        const auto found = tasks_.find(row.Integer(0));
        if (found == tasks_.end() || !tables_.InStep(row.Integer(1))) {
          return;
        }
        if (!IsUsableTime(row.Integer(1), row.Integer(2))) {
          ++without_time;
          return;
        }
        Task& task = found->second;
        task.start = row.Integer(1);
        task.end = row.Integer(2);
        task.connection = row.IntegerOrNone(3);
        const std::string_view type = tables_.profile().texts[tables_.Text(row, 4)];
        task.runs_on_cube = type == "KERNEL_AICORE" || type == "KERNEL_MIX_AIC";
      }));
  if (without_time > 0) {
    tables_.profile().warnings.push_back(
        fmt::format("{}: {} of TASK without a usable time left out",
                    tables_.profile().path.string(), base::Plural(without_time, "row")));
  }
  return {};
}

Status DatabaseDevice::ReadMeasurements() {
  static constexpr std::array<std::pair<std::string_view, double Task::*>, 7> kMeasurements = {{
      {"aicore_time", &Task::aicore_us},
      {"aic_total_time", &Task::aicore_us},  // its newer name
      {"mac_time", &Task::mac_us},
      {"aic_mac_time", &Task::cube_us},
      {"aic_mte2_time", &Task::load_us},
      {"aiv_time", &Task::vector_core_us},
      {"aiv_vec_time", &Task::vector_us},
  }};
  if (!tables_.HasTable("TASK_PMU_INFO")) {
    return {};  // recorded only on demand
  }
  return tables_.ForEachRow(
      "TASK_PMU_INFO", {"globalTaskId", "name", "value"}, [&](const database::SqliteRow& row) {
        const auto found = tasks_.find(row.Integer(0));
        if (found == tasks_.end()) {
          return;
        }
        found->second.is_measured = true;
        const std::string_view name = tables_.profile().texts[tables_.Text(row, 1)];
        for (const auto& [measurement, member] : kMeasurements) {
          if (name == measurement && std::isfinite(row.Number(2))) {
            found->second.*member = row.Number(2) / 1000;
          }
        }
      });
}

void DatabaseDevice::AddKernels() {
  const Needs& needs = tables_.needs();
  Profile& profile = tables_.profile();
  const bool wants_details = needs.kernel_details || needs.operator_statistics;
  for (const ComputeInfo& info : compute_) {
    const Task& task = tasks_[info.id];
    if (task.end < 0) {
      continue;
    }
    const Interval time = IntervalOf(task.start, task.end);
    if (needs.overlap) {
      kernel_times_.push_back(time);
    }
    if (needs.kernels || needs.flows) {
      Kernel& kernel = profile.kernels.emplace_back();
      kernel.name = info.name;
      kernel.task_type = info.core_type;
      kernel.task_id = profile.texts.Intern(std::to_string(info.id));
      kernel.thread = kernel.task_id;  // the number alone says which one a link means
      kernel.shapes = info.shapes;
      kernel.start = task.start;
      kernel.end = task.end;
      kernel.duration_us = time.duration_us;
      connections_.push_back(task.connection);
    }
    if (wants_details) {
      KernelDetail& detail = details_.emplace_back();
      detail.name = info.name;
      detail.type = info.type;
      detail.core_type = info.core_type;
      detail.shapes = info.shapes;
      detail.start = task.start;
      detail.duration_us = time.duration_us;
      detail.vector_us = task.vector_us;
      detail.aicore_us = task.aicore_us;
      detail.mac_us = task.mac_us;
      detail.cube_us = task.cube_us;
      detail.load_us = task.load_us;
      detail.vector_core_us = task.vector_core_us;
      detail.is_cube =
          task.is_measured ? task.aicore_us != 0 || task.mac_us != 0 : task.runs_on_cube;
    }
  }
}

Status DatabaseDevice::ReadCollectives() {
  if (!tables_.HasTable("COMMUNICATION_OP")) {
    return {};  // a run on one device
  }
  Profile& profile = tables_.profile();
  return tables_.ForEachRow(
      "COMMUNICATION_OP", {"opName", "startNs", "endNs", "?opId", "?opType"},
      [&](const database::SqliteRow& row) {
        const Interval time = {row.Integer(1), row.Integer(2), 0};
        if (!IsUsableTime(time.start, time.end) || !tables_.InStep(time.start)) {
          return;
        }
        collective_times_.push_back(IntervalOf(time.start, time.end));
        if (!tables_.needs().communication) {
          return;
        }
        CommunicationOperator added;
        added.name = tables_.Text(row, 0);
        added.kind = tables_.Text(row, 4);
        added.start = time.start;
        added.end = time.end;
        added.duration_us = collective_times_.back().duration_us;
        added.id = static_cast<int64_t>(profile.communication.size());
        operations_.try_emplace(row.Integer(3), added.id);  // tasks belong to one operator only
        profile.communication.push_back(added);
      });
}

void DatabaseDevice::AddCommunicationTasks() {
  Profile& profile = tables_.profile();
  for (const CommunicationInfo& info : communication_) {
    const Task& times = tasks_[info.id];
    const auto operation = operations_.find(info.operation);
    if (times.end < 0 || operation == operations_.end()) {
      continue;
    }
    CommunicationTask& task = profile.communication_tasks.emplace_back();
    task.name = info.name;
    task.plane = info.plane;
    task.operation = operation->second;
    task.start = times.start;
    task.end = times.end;
    task.duration_us = MicrosecondsOf(times.end - times.start);
  }
}

// What op_statistic.csv holds of text profiles.
void DatabaseDevice::AddStatistics() {
  Profile& profile = tables_.profile();
  std::unordered_map<uint64_t, size_t> index;
  for (const KernelDetail& detail : details_) {
    const uint64_t key = (uint64_t{detail.type} << 32U) | detail.core_type;
    const auto [found, is_new] = index.try_emplace(key, profile.operator_statistics.size());
    if (is_new) {
      profile.operator_statistics.push_back(
          {detail.type, detail.core_type, 0, 0, 0, detail.duration_us, detail.duration_us});
    }
    OperatorStatistic& row = profile.operator_statistics[found->second];
    row.count += 1;
    row.total_us += detail.duration_us;
    row.max_us = std::max(row.max_us, detail.duration_us);
    row.min_us = std::min(row.min_us, detail.duration_us);
  }
  for (OperatorStatistic& row : profile.operator_statistics) {
    row.average_us = row.total_us / row.count;
  }
}

// There is no overlap analysis in a database; this is what it would say.
void DatabaseDevice::SetIntervals() {
  Profile& profile = tables_.profile();
  profile.computing = UnionOf(kernel_times_);
  Intervals all = std::move(collective_times_);
  all.insert(all.end(), kernel_times_.begin(), kernel_times_.end());
  profile.uncovered = Without(UnionOf(std::move(all)), profile.computing);
}

}  // namespace msprobe::profile
