#include "src/profile/ascend_database/reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/database/sqlite_file.h"
#include "src/profile/common/host_events.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"

namespace msprobe::profile {
namespace {

// Tables, texts and steps, for all parts of the reader.
class DatabaseTables {
 public:
  // A number of some bytes in a row stands for a text of any length, which is spelled out for each
  // row of a result: bytes of all longer texts that rows name.
  static constexpr uint64_t kSpelledTimesFileSize = 64;
  static constexpr uint64_t kFreeSpelledBytes = uint64_t{16} << 20U;
  static constexpr size_t kShortText = 256;  // does not count

  DatabaseTables(const database::SqliteFile& file, const Needs& needs, Profile& profile)
      : file_(file),
        needs_(needs),
        profile_(profile),
        spelled_left_(kSpelledTimesFileSize * file.size_bytes() + kFreeSpelledBytes) {}

  // Texts and steps. Fails where the step that is needed is none of them.
  Status Load() {
    MSP_RETURN_IF_ERROR(
        ForEachRow("STRING_IDS", {"id", "value"}, [&](const database::SqliteRow& row) {
          texts_[row.Integer(0)] = profile_.texts.Intern(row.Text(1));
        }));
    if (HasTable("STEP_TIME")) {
      MSP_RETURN_IF_ERROR(
          ForEachRow("STEP_TIME", {"id", "startNs", "endNs"}, [&](const database::SqliteRow& row) {
            profile_.steps.push_back(
                {std::to_string(row.Integer(0)), row.Integer(1), row.Integer(2)});
          }));
    }
    if (!needs_.step.has_value()) {
      return {};
    }
    std::vector<std::string> known;
    for (const Step& step : profile_.steps) {
      known.push_back(step.id);
      if (step.id == std::to_string(*needs_.step)) {
        step_ = step;
      }
    }
    if (!step_.has_value()) {
      return MismatchError(fmt::format("{} has no step {}; its steps: {}", profile_.path.string(),
                                       *needs_.step,
                                       known.empty() ? "none" : base::Join(known, ", ")));
    }
    return {};
  }
  // As database::SqliteFile's. Tables and columns that are missing, and tables that break off, are
  // warnings, or errors when the needs are strict.
  Status ForEachRow(std::string_view table, std::initializer_list<std::string_view> columns,
                    const std::function<void(const database::SqliteRow&)>& visit) {
    Status status = file_.ForEachRow(table, columns, visit);
    if (status.ok() || needs_.strict) {
      return status;
    }
    profile_.warnings.push_back(status.message());
    return {};
  }
  bool HasTable(std::string_view table) const { return file_.HasTable(table); }

  // A column of numbers of texts; kNoText for null and for numbers that mean nothing. Where rows
  // name long texts so often that all of them together are out of proportion to the file, the
  // beginning of the text.
  TextId Text(const database::SqliteRow& row, int column) {
    if (row.IsNull(column)) {
      return kNoText;
    }
    if (!row.IsInteger(column)) {
      return profile_.texts.Intern(row.Text(column));  // written out, as some versions do
    }
    const auto found = texts_.find(row.Integer(column));
    return found == texts_.end() ? kNoText : Spelled(found->second);
  }
  // True for everything when no step is needed.
  bool InStep(Nanoseconds start) const {
    return !step_.has_value() || (step_->start <= start && start <= step_->end);
  }

  const Needs& needs() const { return needs_; }
  Profile& profile() { return profile_; }

 private:
  TextId Spelled(TextId text) {
    const std::string_view whole = profile_.texts[text];
    if (whole.size() <= kShortText) {
      return text;
    }
    if (whole.size() <= spelled_left_) {
      spelled_left_ -= whole.size();
      return text;
    }
    if (!cuts_texts_) {
      cuts_texts_ = true;
      profile_.warnings.push_back(
          fmt::format("{}: rows name long texts too often for its size; those of further rows are "
                      "cut after {} bytes",
                      profile_.path.string(), kShortText));
    }
    return profile_.texts.Intern(base::Shortened(whole, kShortText, "..."));
  }

  const database::SqliteFile& file_;
  const Needs& needs_;
  Profile& profile_;
  std::unordered_map<int64_t, TextId> texts_;
  std::optional<Step> step_;
  uint64_t spelled_left_;
  bool cuts_texts_ = false;
};

// Ends of a row's time: false (and counted by the caller) when they make no sense.
bool IsUsableTime(Nanoseconds start, Nanoseconds end) { return start >= 0 && end >= start; }

// The nearest double, also of points in time, which have more digits than a double.
double MicrosecondsOf(Nanoseconds time) {
  const Nanoseconds whole = time / 1000;
  return static_cast<double>(whole) + static_cast<double>(time % 1000) / 1000;
}

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

// The parts of `whole` outside of `cut`; both as UnionOf gives them.
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

// Kernels, collectives and their tasks.
class DatabaseDevice {
 public:
  explicit DatabaseDevice(DatabaseTables& tables) : tables_(tables) {}

  Status Read() {
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
  // For each kernel of the profile, the connection of the operator that launched it.
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
    KernelMetrics metrics = {0, 0, 0, 0, 0, 0};
  };

  Status ReadInfos() {
    const Needs& needs = tables_.needs();
    if (needs.kernels || needs.flows || needs.kernel_details || needs.operator_statistics ||
        needs.overlap) {
      MSP_RETURN_IF_ERROR(tables_.ForEachRow(
          "COMPUTE_TASK_INFO", {"globalTaskId", "name", "?taskType", "?opType", "?inputShapes"},
          [&](const database::SqliteRow& row) {
            const int64_t id = row.Integer(0);
            compute_.push_back({id, tables_.Text(row, 1), tables_.Text(row, 2),
                                tables_.Text(row, 3), tables_.Text(row, 4)});
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

  Status ReadTasks() {
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

  Status ReadMeasurements() {
    using Metrics = KernelMetrics;
    static constexpr std::array<std::pair<std::string_view, double Metrics::*>, 7> kMeasurements = {
        {
            {"aicore_time", &Metrics::aicore_us},
            {"aic_total_time", &Metrics::aicore_us},  // its newer name
            {"mac_time", &Metrics::mac_us},
            {"aic_mac_time", &Metrics::cube_us},
            {"aic_mte2_time", &Metrics::load_us},
            {"aiv_time", &Metrics::vector_core_us},
            {"aiv_vec_time", &Metrics::vector_us},
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
              found->second.metrics.*member = row.Number(2) / 1000;
            }
          }
        });
  }

  Status ReadCollectives() {
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

  void AddKernels() {
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
        static_cast<KernelMetrics&>(detail) = task.metrics;
        detail.is_cube =
            task.is_measured ? detail.aicore_us != 0 || detail.mac_us != 0 : task.runs_on_cube;
      }
    }
  }

  void AddCommunicationTasks() {
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

  // The counterpart of op_statistic.csv in text profiles.
  void AddStatistics() {
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
  void SetIntervals() {
    Profile& profile = tables_.profile();
    profile.computing = UnionOf(kernel_times_);
    Intervals all = std::move(collective_times_);
    all.insert(all.end(), kernel_times_.begin(), kernel_times_.end());
    profile.uncovered = Without(UnionOf(std::move(all)), profile.computing);
  }

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

constexpr std::string_view kModulePrefix = "nn.module:";
// Columns of PYTORCH_API in the order of the query.
enum Column : int { kStart, kEnd, kConnection, kName, kShapes, kType };

auto RangeOf(const auto& sorted, int64_t key) {
  return std::equal_range(sorted.begin(), sorted.end(), std::pair<int64_t, int64_t>(key, 0),
                          [](const auto& a, const auto& b) { return a.first < b.first; });
}

// The host's calls of an Ascend database, what they launched, and what was allocated under them.
class DatabaseHost {
 public:
  explicit DatabaseHost(DatabaseTables& tables) : tables_(tables) {}

  // Operators, python calls and the task queue.
  Status Read() {
    const Needs& needs = tables_.needs();
    Profile& profile = tables_.profile();
    std::unordered_map<int64_t, std::string> kinds;
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "ENUM_API_TYPE", {"id", "name"},
        [&](const database::SqliteRow& row) { kinds[row.Integer(0)] = std::string(row.Text(1)); }));
    MSP_RETURN_IF_ERROR(ReadConnections());
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "PYTORCH_API", {"startNs", "endNs", "?connectionId", "name", "?inputShapes", "type"},
        [&](const database::SqliteRow& row) {
          const Nanoseconds start = row.Integer(kStart);
          const Nanoseconds end = row.Integer(kEnd);
          if (!IsUsableTime(start, end)) {
            ++without_time_;
            return;
          }
          const auto kind = kinds.find(row.Integer(kType));
          if (kind == kinds.end() || !tables_.InStep(start)) {
            return;
          }
          if (kind->second == "op" && (needs.operators || needs.flows)) {
            AddOperators(row);
          } else if (kind->second == "trace" && needs.python_calls) {
            const TextId name = tables_.Text(row, kName);
            const std::string_view text = profile.texts[name];
            const bool is_module =
                base::AsciiLower(text.substr(0, kModulePrefix.size())) == kModulePrefix;
            profile.python_calls.push_back({name, is_module, start, end});
          } else if (kind->second == "queue" && needs.memory && !row.IsNull(kConnection)) {
            QueuePair& pair = queue_[row.Integer(kConnection)];
            if (profile.texts[tables_.Text(row, kName)].starts_with("Enqueue")) {
              pair.enqueued = start;
            } else {
              pair.dequeued = {start, end};
            }
          }
        }));
    std::stable_sort(operators_by_connection_.begin(), operators_by_connection_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (needs.python_calls) {
      LinkForwardBackward();
    }
    if (without_time_ > 0) {
      profile.warnings.push_back(fmt::format("{}: {} of PYTORCH_API without a usable time left out",
                                             profile.path.string(),
                                             base::Plural(without_time_, "row")));
    }
    return {};
  }
  // Links kernel k, an index of the profile's, to the operators of connection connections[k].
  void Launch(const std::vector<std::optional<int64_t>>& connections) {
    Profile& profile = tables_.profile();
    std::vector<Flow> flows;
    const size_t most = connections.size() + profile.operators.size() + 1;
    for (size_t index = 0; index < connections.size() && flows.size() < 8 * most; ++index) {
      if (!connections[index].has_value()) {
        continue;
      }
      const Kernel& kernel = profile.kernels[index];
      const auto [begin, end] = RangeOf(operators_by_connection_, *connections[index]);
      for (auto entry = begin; entry != end && flows.size() < 8 * most; ++entry) {
        Operator& launcher = profile.operators[entry->second];
        launcher.launches = true;
        flows.push_back(
            {launcher.start, kernel.start, launcher.process, kernel.process, kernel.thread});
      }
    }
    // One call may be several operators: the first that launched counts.
    std::optional<uint32_t> launched;
    for (size_t index = 0; index < call_of_.size(); ++index) {
      Operator& launcher = profile.operators[index];
      if (launcher.launches && launched == call_of_[index]) {
        launcher.launches = false;
      } else if (launcher.launches) {
        launched = call_of_[index];
      }
    }
    profile.flows = std::move(flows);
  }
  Status ReadMemory() {
    struct Row {
      bool is_driver;
      double size;
      bool size_is_integer;
      double allocated_us;
      std::optional<int64_t> released;
    };
    Profile& profile = tables_.profile();
    std::vector<Row> rows;
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "OP_MEMORY", {"name", "size", "allocationTime", "releaseTime"},
        [&](const database::SqliteRow& row) {
          const std::optional<int64_t> allocated = row.IntegerOrNone(2);
          if (!allocated.has_value() || *allocated < 0 || !tables_.InStep(*allocated)) {
            return;
          }
          const std::string_view name = profile.texts[tables_.Text(row, 0)];
          rows.push_back({name.find("cann::") != std::string_view::npos, row.Number(1),
                          row.IsInteger(1), MicrosecondsOf(*allocated), row.IntegerOrNone(3)});
        }));
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return a.released < b.released;  // those that were never released first
    });
    const auto time_text = [&](double time_us) {
      return profile.texts.Intern(base::PythonFloatRepr(time_us));
    };
    const std::vector<QueuePair> queue = QueueByDequeue();
    size_t next = 0;
    // Times are doubles here, which hold a quarter of a microsecond: other tools print them so, and
    // place allocations by them.
    for (const Row& row : rows) {
      Allocation allocation;
      const double whole_us = std::floor(row.allocated_us);
      // The last microsecond that 64 bits hold has become the next one as a double.
      constexpr Nanoseconds kLastWholeUs = std::numeric_limits<Nanoseconds>::max() / 1000;
      const Nanoseconds at =
          SumOfTimes(std::min(static_cast<Nanoseconds>(whole_us), kLastWholeUs) * 1000,
                     std::llround((row.allocated_us - whole_us) * 1000));
      allocation.at = at;
      if (row.is_driver) {
        // Never back: a row that ended early can hide earlier pairs from those behind it.
        while (next < queue.size() && queue[next].dequeued->second < at) {
          ++next;
        }
        if (next == queue.size() || queue[next].dequeued->first > at) {
          continue;
        }
        allocation.at = *queue[next].enqueued;
      }
      const double released_us = row.released.has_value() ? MicrosecondsOf(*row.released) : 0;
      allocation.allocated = time_text(row.allocated_us);
      allocation.released = time_text(released_us);
      if (row.allocated_us != 0 && released_us != 0) {
        allocation.duration_us = released_us - row.allocated_us;
      }
      allocation.size_kb = std::isfinite(row.size) ? row.size : 0;
      allocation.size_is_integer = row.size_is_integer;
      profile.allocations.push_back(allocation);
    }
    return {};
  }

 private:
  struct QueuePair {
    std::optional<Nanoseconds> enqueued;
    std::optional<std::pair<Nanoseconds, Nanoseconds>> dequeued;
  };

  Status ReadConnections() {
    MSP_RETURN_IF_ERROR(tables_.ForEachRow(
        "CONNECTION_IDS", {"id", "connectionId"}, [&](const database::SqliteRow& row) {
          connection_ids_.emplace_back(row.Integer(0), row.Integer(1));
        }));
    std::stable_sort(connection_ids_.begin(), connection_ids_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return {};
  }

  // A call is listed once for each of its connections.
  void AddOperators(const database::SqliteRow& row) {
    Profile& profile = tables_.profile();
    Operator added;
    added.name = tables_.Text(row, kName);
    added.types = profile.texts.Intern("N/A");
    added.shapes = tables_.Text(row, kShapes);
    if (added.shapes == kNoText) {
      added.shapes = profile.texts.Intern("None");
    }
    added.shape_key = added.shapes;
    added.start = row.Integer(kStart);
    added.end = row.Integer(kEnd);
    added.duration_us = MicrosecondsOf(added.end - added.start);
    added.launches = false;  // until a kernel of its connection is found
    const auto add = [&] {
      call_of_.push_back(calls_);
      profile.operators.push_back(added);
    };
    const auto [begin, end] = row.IsNull(kConnection)
                                  ? std::pair(connection_ids_.cend(), connection_ids_.cend())
                                  : RangeOf(connection_ids_, row.Integer(kConnection));
    // Each connection belongs to one call; a file that says otherwise must not multiply.
    const size_t most = calls_ + 1 + connection_ids_.size();
    for (auto connection = begin; connection != end && profile.operators.size() < most;
         ++connection) {
      operators_by_connection_.emplace_back(connection->second,
                                            static_cast<uint32_t>(profile.operators.size()));
      add();
    }
    if (begin == end) {
      add();
    }
    ++calls_;
  }

  // A connection that exactly two calls share leads from the forward to the backward one.
  void LinkForwardBackward() {
    Profile& profile = tables_.profile();
    std::vector<std::pair<uint32_t, Flow>> found;
    const auto& entries = operators_by_connection_;
    for (auto begin = entries.begin(); begin != entries.end();) {
      const auto end = RangeOf(entries, begin->first).second;
      if (end - begin == 2 && call_of_[begin->second] != call_of_[(begin + 1)->second]) {
        const Nanoseconds a = profile.operators[begin->second].start;
        const Nanoseconds b = profile.operators[(begin + 1)->second].start;
        Flow flow;
        flow.start = std::min(a, b);
        flow.end = std::max(a, b);
        found.emplace_back(begin->second, flow);
      }
      begin = end;
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [first, flow] : found) {
      profile.forward_backward.push_back(flow);
    }
  }

  std::vector<QueuePair> QueueByDequeue() const {
    std::vector<QueuePair> pairs;
    for (const auto& [connection, pair] : queue_) {
      if (pair.enqueued.has_value() && pair.dequeued.has_value()) {
        pairs.push_back(pair);
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const QueuePair& a, const QueuePair& b) {
      return std::tie(*a.dequeued, *a.enqueued) < std::tie(*b.dequeued, *b.enqueued);
    });
    return pairs;
  }

  DatabaseTables& tables_;
  // By the number that a call refers to; equal ones in file order.
  std::vector<std::pair<int64_t, int64_t>> connection_ids_;
  // The call of each operator; a call with several connections is several operators.
  std::vector<uint32_t> call_of_;
  uint32_t calls_ = 0;
  uint64_t without_time_ = 0;
  std::vector<std::pair<int64_t, uint32_t>> operators_by_connection_;
  std::unordered_map<int64_t, QueuePair> queue_;
};

constexpr std::string_view kMagic("SQLite format 3\0", 16);

Status ReadReserved(DatabaseTables& tables) {
  double most_bytes = 0;
  MSP_RETURN_IF_ERROR(tables.ForEachRow(
      "MEMORY_RECORD", {"totalReserved"},
      [&](const database::SqliteRow& row) { most_bytes = std::max(most_bytes, row.Number(0)); }));
  tables.profile().memory_used_gb = most_bytes / kBytesPerGb;
  return {};
}

}  // namespace

bool LooksLikeDatabase(const std::filesystem::path& file) {
  return base::HeadOf(file, kMagic.size()) == kMagic;
}

Result<Profile> ReadAscendDatabase(const std::filesystem::path& file, const Needs& needs) {
  if (!LooksLikeDatabase(file)) {
    return base::Exists(file)
               ? BadFormatError(fmt::format("{} is not a SQLite database", file.string()))
               : NotFoundError(fmt::format("{} does not exist", file.string()));
  }
  Profile profile;
  profile.path = file;
  profile.device = Device::kNpu;
  profile.source = Source::kDatabase;
  Result<database::SqliteFile> opened = database::SqliteFile::Open(file);
  if (!opened.ok()) {
    // A database that the system refuses concerns its rank only, as a damaged one does.
    return BadFormatError(opened.status().message()).WithHint(opened.status().hint());
  }
  const database::SqliteFile database = *std::move(opened);
  DatabaseTables tables(database, needs, profile);
  MSP_RETURN_IF_ERROR(tables.Load());
  DatabaseDevice device(tables);
  MSP_RETURN_IF_ERROR(device.Read());
  DatabaseHost host(tables);
  if (needs.operators || needs.flows || needs.python_calls || needs.memory) {
    MSP_RETURN_IF_ERROR(host.Read());
  }
  if (needs.flows) {
    host.Launch(device.connections());
  }
  if (needs.memory) {
    MSP_RETURN_IF_ERROR(host.ReadMemory());
  }
  if (needs.overlap) {
    MSP_RETURN_IF_ERROR(ReadReserved(tables));
  }
  WarnOfMissing(profile.path, needs, profile);
  return profile;
}

}  // namespace msprobe::profile
