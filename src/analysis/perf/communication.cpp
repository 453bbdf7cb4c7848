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

// One name of a collective, with the tasks it consists of, in order of first appearance.
struct Named {
  std::string name;
  Total total;
  std::vector<std::pair<std::string, Total>> tasks;
  std::unordered_map<profile::TextId, size_t> task_places;
};

struct Call {
  std::string_view name;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
  int64_t id = -1;
};

// "hcom_allReduce__429_0_1": allreduce; "ncclKernel_AllReduce_RING": ncclkernel. Names of one part
// are not told apart from other kernels.
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

void AddTask(const Profile& side, const profile::CommunicationTask& task, Named& named) {
  const auto [place, is_new] = named.task_places.try_emplace(task.name, named.tasks.size());
  if (is_new) {
    named.tasks.emplace_back(side.texts[task.name], Total());
  }
  named.tasks[place->second].second.Add(task.duration_us);
}

std::vector<Named> Summarize(const Profile& side, const std::optional<std::string>& step_id) {
  const std::vector<const profile::CommunicationTask*> tasks = TasksOf(side, step_id);
  std::unordered_map<int64_t, std::vector<const profile::CommunicationTask*>> tasks_by_id;
  for (const profile::CommunicationTask* task : tasks) {
    if (task->operation >= 0) {
      tasks_by_id[task->operation].push_back(task);
    }
  }
  std::vector<Named> result;
  std::unordered_map<std::string, size_t> index;
  size_t next = 0;
  for (const Call& call : CallsOf(side, step_id)) {
    const std::string name = SheetName(call.name);
    if (name.empty()) {
      continue;
    }
    const auto [found, is_new] = index.try_emplace(name, result.size());
    if (is_new) {
      result.push_back({name, Total(), {}, {}});
    }
    Named& named = result[found->second];
    named.total.Add(call.duration_us);
    if (call.id >= 0) {
      for (const profile::CommunicationTask* task : tasks_by_id[call.id]) {
        AddTask(side, *task, named);
      }
      continue;
    }
    while (next < tasks.size() && tasks[next]->start < call.start) {
      ++next;
    }
    for (; next < tasks.size() && tasks[next]->start <= call.end; ++next) {
      AddTask(side, *tasks[next], named);
    }
  }
  return result;
}

class CommunicationRows {
 public:
  explicit CommunicationRows(const PairOptions& options) {
    constexpr auto kInteger = report::NumberFormat::kInteger;
    constexpr auto kFixed = report::NumberFormat::kFixed2;
    std::vector<SheetColumn> columns = {{"Order Id", 10, kInteger, false}};
    for (int side = 0; side < 2; ++side) {
      columns.push_back({"Communication OP Name", 25, report::NumberFormat::kGeneral, true});
      columns.push_back({"Task Name", 20, kInteger, false});
      columns.push_back({"Calls", 10, kInteger, false});
      for (const std::string_view name :
           {"Total Duration(us)", "Avg Duration(us)", "Max Duration(us)", "Min Duration(us)"}) {
        columns.push_back({name, 17, kFixed, false});
      }
    }
    columns.push_back({"Diff Duration(us)", 20, kFixed, false});
    columns.push_back({"Diff Ratio", 20, report::NumberFormat::kPercent, false});
    sheet_ = MakeSheet("CommunicationCompare", columns, {1, 7}, {8, 14}, options);
  }

  void Add(const Named* base, const Named* comparison) {
    std::vector<report::Cell> cells = Begin();
    PutSide(base != nullptr ? base->name : "", "", base != nullptr ? &base->total : nullptr, cells);
    PutSide(comparison != nullptr ? comparison->name : "", "",
            comparison != nullptr ? &comparison->total : nullptr, cells);
    const Difference difference = Differ(base != nullptr ? base->total.sum : 0,
                                         comparison != nullptr ? comparison->total.sum : 0);
    cells.push_back(report::Cell::Number(difference.difference));
    cells.push_back(report::Cell::Number(difference.ratio));
    sheet_.table.AddRow(cells);
    // Tasks stand beside each other by their place, not by their name.
    const size_t base_tasks = base != nullptr ? base->tasks.size() : 0;
    const size_t comparison_tasks = comparison != nullptr ? comparison->tasks.size() : 0;
    for (size_t place = 0; place < std::max(base_tasks, comparison_tasks); ++place) {
      std::vector<report::Cell> row = Begin();
      PutTask(place < base_tasks ? &base->tasks[place] : nullptr, row);
      PutTask(place < comparison_tasks ? &comparison->tasks[place] : nullptr, row);
      row.resize(sheet_.table.columns().size());
      sheet_.table.AddRow(row);
    }
  }

  report::FormattedTable Take() { return std::move(sheet_); }

 private:
  std::vector<report::Cell> Begin() const {
    return {report::Cell::Integer(static_cast<int64_t>(sheet_.table.row_count()) + 1)};
  }

  void PutTask(const std::pair<std::string, Total>* task, std::vector<report::Cell>& cells) {
    PutSide(task != nullptr ? "|" : "", task != nullptr ? task->first : "",
            task != nullptr ? &task->second : nullptr, cells);
  }

  void PutSide(const std::string& name, const std::string& task, const Total* total,
               std::vector<report::Cell>& cells) {
    const auto text = [&](const std::string& value) {
      return value.empty() ? report::Cell() : sheet_.table.KeepText(value);
    };
    cells.push_back(text(name));
    cells.push_back(text(task));
    if (total == nullptr) {
      cells.insert(cells.end(), {report::Cell(), report::Cell::Integer(0), report::Cell(),
                                 report::Cell(), report::Cell()});
      return;
    }
    cells.push_back(report::Cell::Integer(total->calls));
    cells.push_back(report::Cell::Number(total->sum));
    cells.push_back(report::Cell::Number(total->sum / static_cast<double>(total->calls)));
    cells.push_back(report::Cell::Number(total->longest));
    cells.push_back(report::Cell::Number(total->shortest));
  }

  report::FormattedTable sheet_;
};

}  // namespace

report::FormattedTable CommunicationSheet(const Profile& base, const Profile& comparison,
                                          const PairOptions& options) {
  const std::vector<Named> base_names = Summarize(base, options.base_step);
  const std::vector<Named> comparison_names = Summarize(comparison, options.comparison_step);
  if (base_names.empty() && comparison_names.empty()) {
    return {};
  }
  const ByName<Named> of_base(base_names);
  const ByName<Named> of_comparison(comparison_names);
  CommunicationRows rows(options);
  for (const Named& named : base_names) {
    rows.Add(&named, of_comparison.Find(named.name));
  }
  for (const Named& named : comparison_names) {
    if (of_base.Find(named.name) == nullptr) {
      rows.Add(nullptr, &named);
    }
  }
  return rows.Take();
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
  uint32_t node = item.node;
  for (int step = 0; node != HostTree::kNone && step < HostTree::kDeepest;
       node = work_.tree()[node].parent, ++step) {
    if (const std::string_view kind = OfCaller(work_.tree()[node].name); !kind.empty()) {
      return kind;
    }
  }
  return {};
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
  std::vector<Collective> result;
  std::unordered_map<std::string, size_t> places;
  const auto add = [&](size_t side, std::string_view kind, std::string_view name, double us) {
    std::string label(kind);
    if (kind.empty()) {
      label = SheetName(name);
    }
    if (label.empty()) {
      label = name;
    }
    const auto [place, is_new] = places.try_emplace(label, result.size());
    if (is_new) {
      result.push_back({label, 0, 0, 0, 0});
    }
    Collective& collective = result[place->second];
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
  std::stable_sort(result.begin(), result.end(), [](const Collective& a, const Collective& b) {
    return std::fabs(a.comparison_ms - a.base_ms) > std::fabs(b.comparison_ms - b.base_ms);
  });
  return result;
}

}  // namespace msprobe::analysis::perf
