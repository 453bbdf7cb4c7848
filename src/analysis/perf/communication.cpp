#include "src/analysis/perf/communication.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "src/analysis/perf/kernel_compare.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::Profile;

struct Total {
  int64_t calls = 0;
  double sum = 0;  // us
  double longest = 0;
  double shortest = 0;

  void Add(double duration_us) {
    longest = calls == 0 ? duration_us : std::max(longest, duration_us);
    shortest = calls == 0 ? duration_us : std::min(shortest, duration_us);
    sum += duration_us;
    ++calls;
  }
};

struct Task {
  std::string_view name;
  Total total;
};

// One name of a collective, with the tasks it consists of, in order of first appearance.
struct Named {
  std::string name;
  Total total;
  Ordered<profile::TextId, Task> tasks;
};
using Collectives = Ordered<std::string, Named>;

struct Call {
  std::string_view name;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
  int64_t id = -1;
};

// "hcom_allReduce__429_0_1": allreduce; "ncclKernel_AllReduce_RING": ncclkernel. Names of one part
// are not distinguished from other kernels.
std::string SheetName(std::string_view name) {
  const size_t first = name.find('_');
  if (first == std::string_view::npos) {
    return {};
  }
  if (!base::EqualsIgnoringCase(name.substr(0, first), "hcom")) {
    return base::AsciiLower(name.substr(0, first));
  }
  const std::string_view behind = name.substr(first + 1);
  return base::AsciiLower(behind.substr(0, behind.find('_')));
}

std::optional<profile::Step> FindStep(const Profile& side, const std::optional<std::string>& id) {
  for (const profile::Step& step : side.steps) {
    if (id.has_value() && step.id == *id) {
      return step;
    }
  }
  return std::nullopt;
}

// Collectives by rising start, of the step only.
std::vector<Call> CallsOf(const Profile& side, const std::optional<std::string>& step_id) {
  const std::optional<profile::Step> step = FindStep(side, step_id);
  std::vector<Call> calls;
  const auto add = [&](const Call& call) {
    if (!step.has_value() || (step->start <= call.start && call.start <= step->end)) {
      calls.push_back(call);
    }
  };
  for (const profile::CommunicationOperator& operation : side.communication) {
    const profile::TextId name =
        operation.kind != profile::kNoText ? operation.kind : operation.name;
    add({side.texts[name], operation.start, operation.end, operation.duration_us, operation.id});
  }
  if (side.device == profile::Device::kGpu) {
    for (const profile::Kernel& kernel : side.kernels) {
      if (kernel.is_communication) {
        add({side.texts[kernel.name], kernel.start, kernel.end, kernel.duration_us, -1});
      }
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) { return a.start < b.start; });
  return calls;
}

std::vector<const profile::CommunicationTask*> TasksOf(const Profile& side,
                                                       const std::optional<std::string>& step_id) {
  const std::optional<profile::Step> step = FindStep(side, step_id);
  std::vector<const profile::CommunicationTask*> tasks;
  for (const profile::CommunicationTask& task : side.communication_tasks) {
    if (!step.has_value() || (step->start <= task.start && task.start <= step->end)) {
      tasks.push_back(&task);
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto* a, const auto* b) { return a->start < b->start; });
  return tasks;
}

Collectives Summarize(const Profile& side, const std::optional<std::string>& step_id) {
  const std::vector<const profile::CommunicationTask*> tasks = TasksOf(side, step_id);
  std::unordered_map<int64_t, std::vector<const profile::CommunicationTask*>> tasks_by_id;
  for (const profile::CommunicationTask* task : tasks) {
    if (task->operation >= 0) {
      tasks_by_id[task->operation].push_back(task);
    }
  }
  Collectives result;
  size_t next = 0;
  for (const Call& call : CallsOf(side, step_id)) {
    const std::string name = SheetName(call.name);
    if (name.empty()) {
      continue;
    }
    Named& named = result.At(name, [&] { return Named{name, {}, {}}; });
    const auto add_task = [&](const profile::CommunicationTask& task) {
      named.tasks.At(task.name,
                     [&] {
                       return Task{side.texts[task.name], {}};
                     })
          .total.Add(task.duration_us);
    };
    named.total.Add(call.duration_us);
    if (call.id >= 0) {
      for (const profile::CommunicationTask* task : tasks_by_id[call.id]) {
        add_task(*task);
      }
      continue;
    }
    while (next < tasks.size() && tasks[next]->start < call.start) {
      ++next;
    }
    for (; next < tasks.size() && tasks[next]->start <= call.end; ++next) {
      add_task(*tasks[next]);
    }
  }
  return result;
}

using report::Cell;

// A collective, or a task of one: calls of one name.
struct CommunicationRow {
  struct Side {
    Cell name, task, calls, sum, average, longest, shortest;
  };
  std::array<Side, 2> sides;
  Cell difference, ratio;
};

CommunicationRow::Side SideOf(std::string_view name, std::string_view task, const Total* total,
                              report::Table& table) {
  const auto text = [&](std::string_view value) {
    return value.empty() ? Cell() : table.KeepText(value);
  };
  if (total == nullptr) {
    return {text(name), text(task), Cell(), Cell::Integer(0), Cell(), Cell(), Cell()};
  }
  return {text(name),
          text(task),
          Cell::Integer(total->calls),
          Cell::Number(total->sum),
          Cell::Number(total->sum / static_cast<double>(total->calls)),
          Cell::Number(total->longest),
          Cell::Number(total->shortest)};
}

// A row of the collective, then one for each of its tasks: those of the two sides are paired by
// their place, not by their name. Null: the side has no such collective.
void AddRows(const std::array<const Named*, 2>& named, Sheet<CommunicationRow>& sheet) {
  CommunicationRow row;
  std::array<double, 2> sums = {};
  size_t tasks = 0;
  for (size_t i = 0; i < named.size(); ++i) {
    const Named* side = named[i];
    row.sides[i] = SideOf(side != nullptr ? side->name : "", "",
                          side != nullptr ? &side->total : nullptr, sheet.table());
    sums[i] = side != nullptr ? side->total.sum : 0;
    tasks = std::max(tasks, side != nullptr ? side->tasks.items().size() : 0);
  }
  const Difference difference = Differ(sums[0], sums[1]);
  row.difference = Cell::Number(difference.difference);
  row.ratio = Cell::Number(difference.ratio);
  sheet.Add(row);
  for (size_t place = 0; place < tasks; ++place) {
    CommunicationRow task_row;
    for (size_t i = 0; i < named.size(); ++i) {
      const bool is_there = named[i] != nullptr && place < named[i]->tasks.items().size();
      const Task* task = is_there ? &named[i]->tasks.items()[place] : nullptr;
      task_row.sides[i] = SideOf(is_there ? "|" : "", is_there ? task->name : "",
                                 is_there ? &task->total : nullptr, sheet.table());
    }
    sheet.Add(task_row);
  }
}

SheetColumns<CommunicationRow> CommunicationColumns() {
  using enum report::NumberFormat;
  using Side = CommunicationRow::Side;
  return {{{"Order Id", 10, kInteger, kRowNumber}},
          {{"Communication OP Name", 25, kGeneral, &Side::name, true},
           {"Task Name", 20, kInteger, &Side::task},
           {"Calls", 10, kInteger, &Side::calls},
           {"Total Duration(us)", 17, kFixed2, &Side::sum},
           {"Avg Duration(us)", 17, kFixed2, &Side::average},
           {"Max Duration(us)", 17, kFixed2, &Side::longest},
           {"Min Duration(us)", 17, kFixed2, &Side::shortest}},
          {{"Diff Duration(us)", 20, kFixed2, &CommunicationRow::difference},
           {"Diff Ratio", 20, kPercent, &CommunicationRow::ratio}}};
}

}  // namespace

report::FormattedTable CommunicationSheet(const Profile& base, const Profile& comparison,
                                          const PairOptions& options) {
  const Collectives of_base = Summarize(base, options.base_step);
  const Collectives of_comparison = Summarize(comparison, options.comparison_step);
  if (of_base.items().empty() && of_comparison.items().empty()) {
    return {};
  }
  Sheet<CommunicationRow> sheet("CommunicationCompare", CommunicationColumns(), options);
  for (const Named& named : of_base.items()) {
    AddRows({&named, of_comparison.Find(named.name)}, sheet);
  }
  for (const Named& named : of_comparison.items()) {
    if (of_base.Find(named.name) == nullptr) {
      AddRows({nullptr, &named}, sheet);
    }
  }
  return sheet.Take();
}

std::string_view CollectiveKind(std::string_view name) {
  std::string letters;
  for (const char c : base::AsciiLower(name)) {
    if (c != '_' && c != '-') {
      letters += c;
    }
  }
  // Longer words first: an all-reduce is not a reduce.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kKinds = {{
      {"reducescatter", "reduce_scatter"},
      {"allreduce", "all_reduce"},
      {"allgather", "all_gather"},
      {"alltoall", "all_to_all"},
      {"broadcast", "broadcast"},
      {"sendrecv", "send_recv"},
      {"barrier", "barrier"},
      {"scatter", "scatter"},
      {"gather", "gather"},
      {"reduce", "reduce"},
      {"receive", "recv"},
      {"send", "send"},
      {"recv", "recv"},
  }};
  for (const auto& [word, kind] : kKinds) {
    if (letters.find(word) != std::string::npos) {
      return kind;
    }
  }
  return {};
}

KindsOfCollectives::KnownKernel& KindsOfCollectives::Known(profile::TextId name) {
  const auto [known, is_new] = kernels_.try_emplace(name);
  if (is_new) {
    const std::string_view text = work_.profile().texts[name];
    known->second.label = ShortKernelName(NeutralName(text));
    known->second.kind = text.find("cross_device_reduce") != std::string_view::npos
                             ? "all_reduce"
                             : CollectiveKind(text);
  }
  return known->second;
}

std::string_view KindsOfCollectives::OfCaller(profile::TextId name) {
  const auto [known, is_new] = callers_.try_emplace(name);
  if (is_new) {
    const std::string_view caller = work_.profile().texts[name];
    if (caller.find("nccl:") != std::string_view::npos ||
        caller.find("c10d") != std::string_view::npos ||
        caller.find("all") != std::string_view::npos) {
      known->second = CollectiveKind(caller);
    }
  }
  return known->second;
}

std::string_view KindsOfCollectives::KindOf(const WorkItem& item) {
  if (const std::string_view kind = Known(item.name).kind; !kind.empty()) {
    return kind;
  }
  std::string_view kind;
  work_.tree().FirstCaller(item.node, [&](uint32_t node) {
    kind = OfCaller(work_.tree()[node].name);
    return !kind.empty();
  });
  return kind;
}

std::string KindsOfCollectives::Of(const WorkItem& item) {
  const std::string& label = Known(item.name).label;
  if (!by_kind_) {
    return label;
  }
  const std::string_view kind = KindOf(item);
  return kind.empty() ? "collective " + label : std::string(kind);
}

std::vector<Collective> CompareCollectives(const Profile& base, const Profile& comparison,
                                           const std::array<const DeviceWork*, 2>& works,
                                           const PairOptions& options) {
  Ordered<std::string, Collective> result;
  const auto add = [&](size_t side, std::string_view kind, std::string_view name, double us) {
    std::string label(kind);
    if (kind.empty()) {
      label = SheetName(name);
    }
    if (label.empty()) {
      label = name;
    }
    Collective& collective = result.At(label, [&] { return Collective{label, 0, 0, 0, 0}; });
    (side == 0 ? collective.base_ms : collective.comparison_ms) += us / kUsPerMs;
    ++(side == 0 ? collective.base_calls : collective.comparison_calls);
  };
  const bool by_kind = options.match_collectives_by_kind;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Profile& profile = side == 0 ? base : comparison;
    if (profile.device == profile::Device::kGpu && works[side] != nullptr) {
      KindsOfCollectives kinds(*works[side], by_kind);
      for (const WorkItem& item : works[side]->items()) {
        if (item.kind == WorkKind::kCommunication) {
          add(side, by_kind ? kinds.KindOf(item) : "", profile.texts[item.name], item.us);
        }
      }
      continue;
    }
    for (const Call& call :
         CallsOf(profile, side == 0 ? options.base_step : options.comparison_step)) {
      add(side, by_kind ? CollectiveKind(call.name) : "", call.name, call.duration_us);
    }
  }
  std::stable_sort(
      result.items().begin(), result.items().end(), [](const Collective& a, const Collective& b) {
        return std::fabs(a.comparison_ms - a.base_ms) > std::fabs(b.comparison_ms - b.base_ms);
      });
  return std::move(result.items());
}

}  // namespace msprobe::analysis::perf
