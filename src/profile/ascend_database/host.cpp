#include "src/profile/ascend_database/host.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/profile/common/time_sum.h"

namespace msprobe::profile {
namespace {

constexpr std::string_view kModulePrefix = "nn.module:";
// Columns of PYTORCH_API in the order of the query.
enum Column : int { kStart, kEnd, kConnection, kName, kShapes, kType };

auto RangeOf(const auto& sorted, int64_t key) {
  return std::equal_range(sorted.begin(), sorted.end(), std::pair<int64_t, int64_t>(key, 0),
                          [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace

Status DatabaseHost::Read() {
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

Status DatabaseHost::ReadConnections() {
  MSP_RETURN_IF_ERROR(tables_.ForEachRow(
      "CONNECTION_IDS", {"id", "connectionId"}, [&](const database::SqliteRow& row) {
        connection_ids_.emplace_back(row.Integer(0), row.Integer(1));
      }));
  std::stable_sort(connection_ids_.begin(), connection_ids_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return {};
}

// A call is listed once for each of its connections.
void DatabaseHost::AddOperators(const database::SqliteRow& row) {
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

void DatabaseHost::Launch(const std::vector<std::optional<int64_t>>& connections) {
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
  // Of the operators that one call has become, the first that launched stands for all.
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

// A connection that exactly two calls share leads from the forward to the backward one.
void DatabaseHost::LinkForwardBackward() {
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

std::vector<DatabaseHost::QueuePair> DatabaseHost::QueueByDequeue() const {
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

Status DatabaseHost::ReadMemory() {
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

}  // namespace msprobe::profile
