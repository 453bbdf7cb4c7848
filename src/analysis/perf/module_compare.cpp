#include "src/analysis/perf/module_compare.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/profile/common/host_events.h"

namespace msprobe::analysis::perf {

using profile::Nanoseconds;

NestedIntervals::NestedIntervals(std::span<const Interval> intervals,
                                 std::span<const Nanoseconds> markers) {
  std::vector<uint32_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [intervals](uint32_t a, uint32_t b) {
    return intervals[a].start < intervals[b].start;
  });
  nodes_.reserve(intervals.size());
  uint32_t last = kNoNode;
  const auto leave = [&](Nanoseconds now) {
    while (last != kNoNode && now > nodes_[last].end) {
      nodes_[last].last_marker = static_cast<uint32_t>(placed_.size());
      last = nodes_[last].parent;
    }
  };
  size_t marker = 0;
  const auto place_markers = [&](Nanoseconds before, bool all) {
    for (; marker < markers.size() && (all || markers[marker] < before); ++marker) {
      leave(markers[marker]);
      if (last != kNoNode) {
        placed_.push_back({static_cast<uint32_t>(marker), last});
      }
    }
  };
  for (const uint32_t index : order) {
    const Interval& interval = intervals[index];
    place_markers(interval.start, false);
    leave(interval.start);
    const uint32_t depth = last == kNoNode ? 1 : nodes_[last].depth + 1;
    if (depth > kMaxDepth) {
      cut_ = true;
      continue;
    }
    Node node;
    node.interval = index;
    node.parent = last;
    node.depth = depth;
    node.start = interval.start;
    node.end = interval.end;
    node.first_marker = static_cast<uint32_t>(placed_.size());
    if (last == kNoNode) {
      roots_.push_back(static_cast<uint32_t>(nodes_.size()));
    } else {
      ++nodes_[last].child_count;
    }
    last = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(node);
  }
  place_markers(0, true);
  for (; last != kNoNode; last = nodes_[last].parent) {
    nodes_[last].last_marker = static_cast<uint32_t>(placed_.size());
  }

  uint32_t child = 0;
  for (Node& node : nodes_) {
    node.first_child = child;
    child += node.child_count;
    node.child_count = 0;  // counted again while the list fills
  }
  children_.resize(child);
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != kNoNode) {
      Node& parent = nodes_[nodes_[i].parent];
      children_[parent.first_child + parent.child_count++] = i;
    }
  }
}

uint32_t NestedIntervals::Find(Nanoseconds time) const {
  uint32_t found = kNoNode;
  std::span<const uint32_t> level = roots_;
  while (true) {
    const auto after =
        std::upper_bound(level.begin(), level.end(), time,
                         [this](Nanoseconds t, uint32_t node) { return t < nodes_[node].start; });
    if (after == level.begin()) {
      return found;
    }
    const uint32_t candidate = *(after - 1);
    if (nodes_[candidate].start >= time || nodes_[candidate].end <= time) {
      return found;
    }
    found = candidate;
    level = children(candidate);
  }
}

namespace {

using profile::kNoText;
using profile::Operator;
using profile::Profile;
using profile::TextId;

using NestedIntervalList = std::vector<NestedIntervals::Interval>;

// The answer of a test for every name of a profile, asked once each.
template <typename Test>
std::vector<bool> NamesThat(const profile::Texts& texts, const Test& test) {
  std::vector<bool> answers(texts.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    answers[i] = test(texts[static_cast<TextId>(i)]);
  }
  return answers;
}

std::vector<uint32_t> ByStart(const std::vector<Operator>& operators) {
  std::vector<uint32_t> order(operators.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&operators](uint32_t a, uint32_t b) {
    return operators[a].start < operators[b].start;
  });
  return order;
}

}  // namespace

ModuleSide::ModuleSide(const OperatorSide& side) : side_(&side) {
  MakeForward();
  if (!has_modules_) {
    return;
  }
  MakeBackward();
  PlaceOperators();
}

void ModuleSide::MakeForward() {
  const Profile& profile = side_->profile();
  NestedIntervalList modules;
  NestedIntervalList functions;
  for (const profile::PythonCall& call : profile.python_calls) {
    (call.is_module ? modules : functions).push_back({call.start, call.end});
    (call.is_module ? forward_names_ : function_names_).push_back(profile.texts[call.name]);
  }
  has_modules_ = !modules.empty();
  if (!has_modules_) {
    return;
  }
  const auto optimizers = NamesThat(profile.texts, IsOptimizer);
  for (const Operator& operation : profile.operators) {
    if (optimizers[operation.name]) {
      modules.push_back({operation.start, operation.end});
      forward_names_.push_back(profile.texts[operation.name]);
    }
  }
  functions_ = NestedIntervals(functions, {});
  forward_ = NestedIntervals(modules, side_->links().times());
  AddModules(forward_, forward_names_);
}

// An operator that a backward pass runs for one of a forward pass counts as a module, named after
// the forward one's.
void ModuleSide::MakeBackward() {
  const Profile& profile = side_->profile();
  if (profile.forward_backward.empty()) {
    return;
  }
  const TextId process = profile.forward_backward.front().end_process;
  const auto optimizers = NamesThat(profile.texts, IsOptimizer);
  auto order = ByStart(profile.operators);
  order.erase(std::remove_if(order.begin(), order.end(),
                             [&](uint32_t i) {
                               const Operator& operation = profile.operators[i];
                               return optimizers[operation.name] ||
                                      (process != kNoText && operation.process != process);
                             }),
              order.end());
  NestedIntervalList intervals;
  for (const profile::Flow& flow : profile.forward_backward) {
    // The last of those that start there.
    const auto after = std::upper_bound(
        order.begin(), order.end(), flow.end,
        [&profile](Nanoseconds time, uint32_t i) { return time < profile.operators[i].start; });
    const uint32_t module = forward_.Find(flow.start);
    if (module == kNoNode || after == order.begin()) {
      continue;
    }
    const Operator& operation = profile.operators[*(after - 1)];
    if (operation.start != flow.end) {
      continue;
    }
    const TextId name = backward_texts_.Intern("[ BACKWARD ]" + std::string(path(module)));
    backward_names_.push_back(backward_texts_[name]);
    intervals.push_back({operation.start, operation.end});
  }
  if (!intervals.empty()) {
    backward_ = NestedIntervals(intervals, side_->links().times());
    AddModules(backward_, backward_names_);
  }
}

TextId ModuleSide::PathOf(TextId parent, std::string_view name) {
  constexpr std::string_view kDeeper = "/...";
  const std::string_view above = paths_[parent];
  const size_t size = above.size() + 1 + name.size();
  if (size <= kLongestPath && size <= kMostPathBytes - path_bytes_) {
    const size_t known = paths_.size();
    const TextId path = paths_.Intern(std::string(above) + "/" + std::string(name));
    path_bytes_ += paths_.size() > known ? size : 0;
    return path;
  }
  cuts_paths_ = true;
  return above.ends_with(kDeeper) ? parent
                                  : paths_.Intern(std::string(above) + std::string(kDeeper));
}

void ModuleSide::AddModules(const NestedIntervals& tree, std::span<const std::string_view> names) {
  const Profile& profile = side_->profile();
  const KernelLinks& links = side_->links();
  const size_t offset = modules_.size();
  // Paths are spelled out once per parent path and name.
  std::unordered_map<std::string_view, TextId> name_numbers;
  std::unordered_map<uint64_t, TextId> known;
  for (const NestedIntervals::Node& node : tree.nodes()) {
    const std::string_view name = names[node.interval];
    const TextId number =
        name_numbers.emplace(name, static_cast<TextId>(name_numbers.size())).first->second;
    const TextId parent = node.parent == kNoNode ? kNoText : modules_[offset + node.parent].path;
    const auto [place, is_new] = known.emplace(uint64_t{parent} << 32U | number, kNoText);
    if (is_new) {
      place->second = PathOf(parent, name);
    }
    Module module;
    module.path = place->second;
    module.level = node.depth + 1;
    module.start = node.start;
    // Kernel by kernel in order of time, so that the last bit does not depend on how deep it went.
    for (const NestedIntervals::Placed& placed : tree.placed(node)) {
      for (const uint32_t kernel : links.kernels(placed.marker)) {
        module.total_us += profile.kernels[kernel].duration_us;
      }
    }
    modules_.push_back(module);
  }
  for (const NestedIntervals::Placed& placed : tree.placed()) {
    for (const uint32_t kernel : links.kernels(placed.marker)) {
      modules_[offset + placed.node].self_us += profile.kernels[kernel].duration_us;
    }
  }
}

void ModuleSide::PlaceOperators() {
  const Profile& profile = side_->profile();
  const auto skipped = NamesThat(profile.texts, [](std::string_view name) {
    return IsOptimizer(name) || profile::IsStepMarker(name);
  });
  // Modules by number; what lies in none comes after the last.
  const auto outside = static_cast<uint32_t>(modules_.size());
  struct ModuleItem {  // what lies in a module
    uint32_t module = 0;
    uint32_t index = 0;  // of an operator, or of a launch
  };
  const auto by_module = [](const ModuleItem& a, const ModuleItem& b) {
    return a.module < b.module;
  };
  std::vector<ModuleItem> items;
  for (const uint32_t i : ByStart(profile.operators)) {
    const Operator& operation = profile.operators[i];
    if (skipped[operation.name]) {
      continue;
    }
    uint32_t module = forward_.Find(operation.start);
    if (module == kNoNode) {
      module = backward_.Find(operation.start);
      module = module == kNoNode ? outside : module + forward_count();
    }
    items.push_back({module, i});
  }
  std::stable_sort(items.begin(), items.end(), by_module);

  // Launches, each in the innermost module of either tree.
  std::vector<ModuleItem> launches;
  std::vector<bool> is_placed(side_->links().times().size());
  for (const NestedIntervals::Placed& placed : forward_.placed()) {
    launches.push_back({placed.node, placed.marker});
    is_placed[placed.marker] = true;
  }
  for (const NestedIntervals::Placed& placed : backward_.placed()) {
    launches.push_back({placed.node + forward_count(), placed.marker});
    is_placed[placed.marker] = true;
  }
  for (uint32_t i = 0; i < is_placed.size(); ++i) {
    if (!is_placed[i]) {
      launches.push_back({outside, i});
    }
  }
  std::stable_sort(launches.begin(), launches.end(), by_module);

  size_t item = 0;
  size_t launch = 0;
  std::vector<Nanoseconds> open;  // ends of the operators around the next one
  std::vector<uint32_t> launched;
  for (uint32_t module = 0; module <= outside; ++module) {
    const size_t first = operators_.size();
    open.clear();
    for (; item < items.size() && items[item].module == module; ++item) {
      const Operator& operation = profile.operators[items[item].index];
      while (!open.empty() && operation.start > open.back()) {
        open.pop_back();
      }
      if (open.empty()) {
        operators_.push_back({items[item].index, 0, 0});
      }
      open.push_back(operation.end);
    }
    launched.clear();
    for (; launch < launches.size() && launches[launch].module == module; ++launch) {
      launched.push_back(launches[launch].index);
    }
    TakeKernels(first, launched);
    if (module < outside) {
      modules_[module].first_operator = static_cast<uint32_t>(first);
      modules_[module].operator_count = static_cast<uint32_t>(operators_.size() - first);
    } else {
      first_outside_ = first;
    }
  }
}

// Both operators and launches rise in time; a launch before an operator's start is nobody's.
void ModuleSide::TakeKernels(size_t first, std::span<const uint32_t> launches) {
  const auto times = side_->links().times();
  size_t next = 0;
  for (size_t i = first; i < operators_.size(); ++i) {
    ModuleOperator& taker = operators_[i];
    const Operator& operation = profile().operators[taker.operation];
    taker.first_kernel = static_cast<uint32_t>(kernels_.size());
    while (next < launches.size() && times[launches[next]] < operation.start) {
      ++next;
    }
    for (; next < launches.size() && times[launches[next]] <= operation.end; ++next) {
      const auto launched = side_->links().kernels(launches[next]);
      kernels_.insert(kernels_.end(), launched.begin(), launched.end());
    }
    taker.kernel_count = static_cast<uint32_t>(kernels_.size()) - taker.first_kernel;
  }
}

std::vector<uint32_t> ModuleSide::Shifted(std::span<const uint32_t> nodes, uint32_t offset) {
  std::vector<uint32_t> shifted(nodes.begin(), nodes.end());
  for (uint32_t& node : shifted) {
    node += offset;
  }
  return shifted;
}

std::vector<uint32_t> ModuleSide::Children(uint32_t module) const {
  return module < forward_count()
             ? Shifted(forward_.children(module), 0)
             : Shifted(backward_.children(module - forward_count()), forward_count());
}

std::string ModuleSide::CallStack(uint32_t module) const {
  const NestedIntervals* tree = &functions_;
  std::span<const std::string_view> names = function_names_;
  uint32_t node = functions_.Find(modules_[module].start);
  if (node == kNoNode) {
    const bool is_forward = module < forward_count();
    tree = is_forward ? &forward_ : &backward_;
    names = is_forward ? forward_names_ : backward_names_;
    node = is_forward ? module : module - forward_count();
  }
  std::vector<std::string_view> calls;  // innermost first
  for (; node != kNoNode; node = (*tree)[node].parent) {
    calls.push_back(names[(*tree)[node].interval]);
  }
  DetailText stack;
  for (size_t i = calls.size(); i-- > 0;) {
    stack.Add([&](std::string& out) {
      out += calls[i];
      out += i == 0 ? "" : ";\n";
    });
  }
  return stack.text();
}

namespace {

class ModuleMatcher {
 public:
  ModuleMatcher(const ModuleSide& base, const ModuleSide& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison), options_(options) {
    // Paths of the comparison numbered as those of the base, new ones beyond them.
    const auto known = static_cast<uint32_t>(base.paths().size());
    for (TextId id = 0; id < comparison.paths().size(); ++id) {
      const TextId same = base.paths().Find(comparison.paths()[id]);
      comparison_keys_.push_back(same != profile::kNoText ? same : known + id);
    }
  }

  std::vector<AlignedPair> Match() {
    Pair(base_.ForwardRoots(), comparison_.ForwardRoots());
    Pair(base_.BackwardRoots(), comparison_.BackwardRoots());
    // Grows while it is walked.
    for (size_t i = 0; i < pairs_.size(); ++i) {  // NOLINT(modernize-loop-convert)
      const AlignedPair pair = pairs_[i];
      Pair(pair.base == kUnmatched ? Modules() : base_.Children(pair.base),
           pair.comparison == kUnmatched ? Modules() : comparison_.Children(pair.comparison));
    }
    return std::move(pairs_);
  }

 private:
  using Modules = std::vector<uint32_t>;

  void Pair(const Modules& base, const Modules& comparison) {
    if (base.empty() || comparison.empty() || !options_.details) {
      for (const uint32_t module : base) {
        pairs_.push_back({module, kUnmatched});
      }
      for (const uint32_t module : comparison) {
        pairs_.push_back({kUnmatched, module});
      }
      return;
    }
    Modules base_keys;
    for (const uint32_t module : base) {
      base_keys.push_back(base_[module].path);
    }
    Modules comparison_keys;
    for (const uint32_t module : comparison) {
      comparison_keys.push_back(comparison_keys_[comparison_[module].path]);
    }
    for (const AlignedPair& pair : Align(base_keys, comparison_keys, options_.alignment).pairs) {
      pairs_.push_back({pair.base == kUnmatched ? kUnmatched : base[pair.base],
                        pair.comparison == kUnmatched ? kUnmatched : comparison[pair.comparison]});
    }
  }

  const ModuleSide& base_;
  const ModuleSide& comparison_;
  const PairOptions& options_;
  std::vector<uint32_t> comparison_keys_;
  std::vector<AlignedPair> pairs_;
};

}  // namespace

bool CanCompareModules(const ModuleSide& base, const ModuleSide& comparison,
                       const PairOptions& options) {
  return options.modules && base.has_modules() && comparison.has_modules();
}

std::vector<AlignedPair> MatchModules(const ModuleSide& base, const ModuleSide& comparison,
                                      const PairOptions& options) {
  const std::vector<AlignedPair> matched = ModuleMatcher(base, comparison, options).Match();
  std::vector<AlignedPair> with_base;
  std::vector<AlignedPair> alone;
  for (const AlignedPair& pair : matched) {
    (pair.base == kUnmatched ? alone : with_base).push_back(pair);
  }
  std::stable_sort(with_base.begin(), with_base.end(),
                   [&base](const AlignedPair& a, const AlignedPair& b) {
                     return base[a.base].start < base[b.base].start;
                   });
  std::stable_sort(alone.begin(), alone.end(),
                   [&comparison](const AlignedPair& a, const AlignedPair& b) {
                     return comparison[a.comparison].start < comparison[b.comparison].start;
                   });
  std::vector<AlignedPair> ordered;
  ordered.reserve(matched.size());
  size_t next = 0;
  for (const AlignedPair& pair : with_base) {
    while (pair.comparison != kUnmatched && next < alone.size() &&
           comparison[alone[next].comparison].start < comparison[pair.comparison].start) {
      ordered.push_back(alone[next++]);
    }
    ordered.push_back(pair);
  }
  ordered.insert(ordered.end(), alone.begin() + static_cast<std::ptrdiff_t>(next), alone.end());
  return ordered;
}

std::string_view ModuleClass(std::string_view path) {
  std::string_view part = path.substr(path.rfind('/') + 1);
  const size_t last = part.find_last_not_of("0123456789");
  if (last != std::string_view::npos && last + 1 < part.size() && part[last] == '_') {
    part = part.substr(0, last);
  }
  return part;
}

std::string ModuleName(std::string_view path) { return base::ReplaceAll(path, "nn.Module:", ""); }

namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr size_t kModuleColumnCount = 17;
constexpr std::array<SheetColumn, kModuleColumnCount> kModuleColumns = {
    {{"Order Id", 10, kInteger},
     {"Module Class", 20, kInteger},
     {"Module Level", 15, kInteger},
     {"Module Name", 35, kInteger},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(us)", 20, kFixed2},
     {"Device Total Time(us)", 20, kFixed2},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(us)", 20, kFixed2},
     {"Device Total Time(us)", 20, kFixed2},
     {"Device Total Time Diff(us)", 20, kFixed2},
     {"Device Self Time Diff(us)", 20, kFixed2},
     {"Diff Total Ratio", 15, kPercent},
     {"Base Call Stack", 30, kInteger},
     {"Comparison Call Stack", 30, kInteger}}};

using Cells = std::array<Cell, kModuleColumnCount>;

// One side of the sheet.
class SideCells {
 public:
  SideCells(const ModuleSide& side, size_t first_column, size_t stack_column, report::Table& table,
            KeptTexts& kept, const PairOptions& options)
      : side_(side),
        first_(first_column),
        stack_(stack_column),
        table_(table),
        kept_(kept),
        texts_(side.profile().texts, table),
        details_(options.whole_texts) {}

  bool has_call_stacks() const { return has_call_stacks_; }

  void FillModule(uint32_t module, Cells& cells, double& self_us, double& total_us) {
    cells[first_] = Cell::Text("TOTAL");
    if (module != kUnmatched) {
      self_us = side_[module].self_us;
      total_us = side_[module].total_us;
      cells[stack_] = kept_(side_.CallStack(module));
    }
    cells[first_ + 2] = Cell::Number(self_us);
    cells[first_ + 3] = Cell::Number(total_us);
  }

  void FillOperator(const ModuleOperator* module_operator, Cells& cells, double& self_us) {
    if (module_operator != nullptr) {
      const profile::Operator& operation = side_.profile().operators[module_operator->operation];
      details_.Clear();
      for (const uint32_t index : side_.kernels(*module_operator)) {
        const profile::Kernel& kernel = side_.profile().kernels[index];
        self_us += kernel.duration_us;
        details_.Add([&](std::string& out) { AppendKernelText(side_.profile(), kernel, out); });
      }
      cells[first_] = texts_(operation.name);
      cells[first_ + 1] = table_.KeepText(details_.text());
      has_call_stacks_ = has_call_stacks_ || operation.call_stack != profile::kNoText;
    }
    cells[first_ + 2] = Cell::Number(self_us);
  }
  void FillCallStack(const ModuleOperator* module_operator, Cells& cells) {
    if (module_operator != nullptr) {
      const profile::TextId stack =
          side_.profile().operators[module_operator->operation].call_stack;
      cells[stack_] = stack == profile::kNoText ? Cell::Text("N/A") : texts_(stack);
    }
  }

 private:
  const ModuleSide& side_;
  size_t first_;
  size_t stack_;
  report::Table& table_;
  KeptTexts& kept_;
  TextCells texts_;
  DetailText details_;
  bool has_call_stacks_ = false;
};

// Operators of a pair of modules by name; places in the modules' own lists.
class OperatorPairs {
 public:
  OperatorPairs(const ModuleSide& base, const ModuleSide& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison), options_(options) {
    const profile::Texts& texts = comparison.profile().texts;
    numbers_.assign(texts.size(), kUnmatched);
  }

  std::vector<AlignedPair> Of(const AlignedPair& modules) {
    std::vector<uint32_t> base_keys;
    if (modules.base != kUnmatched) {
      for (const ModuleOperator& operation : base_.operators(modules.base)) {
        base_keys.push_back(base_.profile().operators[operation.operation].name);
      }
    }
    std::vector<uint32_t> comparison_keys;
    if (modules.comparison != kUnmatched) {
      for (const ModuleOperator& operation : comparison_.operators(modules.comparison)) {
        comparison_keys.push_back(
            Number(comparison_.profile().operators[operation.operation].name));
      }
    }
    return Align(base_keys, comparison_keys, options_.alignment).pairs;
  }

 private:
  uint32_t Number(profile::TextId name) {
    uint32_t& number = numbers_[name];
    if (number == kUnmatched) {
      const profile::Texts& texts = base_.profile().texts;
      const profile::TextId same = texts.Find(comparison_.profile().texts[name]);
      number = same != profile::kNoText || name == profile::kNoText
                   ? same
                   : static_cast<uint32_t>(texts.size()) + name;
    }
    return number;
  }

  const ModuleSide& base_;
  const ModuleSide& comparison_;
  const PairOptions& options_;
  std::vector<uint32_t>
      numbers_;  // of the comparison's names, as the base has them; once asked for
};

const ModuleOperator* OperatorAt(const ModuleSide& side, uint32_t module, uint32_t place) {
  return place == kUnmatched ? nullptr : &side.operators(module)[place];
}

}  // namespace

report::FormattedTable ModuleDetails(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     std::vector<std::string>& warnings) {
  report::FormattedTable sheet =
      MakeSheet("ModuleCompare", kModuleColumns, {4, 7}, {8, 11}, options);
  KeptTexts kept(sheet.table);
  SideCells base_cells(base, 4, 15, sheet.table, kept, options);
  SideCells comparison_cells(comparison, 8, 16, sheet.table, kept, options);
  OperatorPairs operator_pairs(base, comparison, options);
  int64_t order = 0;
  for (const AlignedPair& pair : pairs) {
    const bool in_base = pair.base != kUnmatched;
    const std::string_view path = in_base ? base.path(pair.base) : comparison.path(pair.comparison);
    Cells cells;
    cells[1] = kept(ModuleClass(path));
    cells[2] = Cell::Integer(in_base ? base[pair.base].level : comparison[pair.comparison].level);
    cells[3] = kept(ModuleName(path));
    const Cells shared = cells;

    double base_self = 0;
    double base_total = 0;
    double comparison_self = 0;
    double comparison_total = 0;
    base_cells.FillModule(pair.base, cells, base_self, base_total);
    comparison_cells.FillModule(pair.comparison, cells, comparison_self, comparison_total);
    const Difference total = Differ(base_total, comparison_total);
    cells[0] = Cell::Integer(++order);
    cells[12] = Cell::Number(total.difference);
    cells[13] = Cell::Number(Differ(base_self, comparison_self).difference);
    cells[14] = Cell::Number(total.ratio);
    sheet.table.AddRow(cells);

    for (const AlignedPair& places : operator_pairs.Of(pair)) {
      const ModuleOperator* left = OperatorAt(base, pair.base, places.base);
      const ModuleOperator* right = OperatorAt(comparison, pair.comparison, places.comparison);
      cells = shared;
      cells[0] = Cell::Integer(++order);
      base_self = 0;
      comparison_self = 0;
      base_cells.FillOperator(left, cells, base_self);
      comparison_cells.FillOperator(right, cells, comparison_self);
      const Difference self = Differ(base_self, comparison_self);
      cells[13] = Cell::Number(self.difference);
      cells[14] = Cell::Number(self.ratio);
      if (self.difference > 0) {
        base_cells.FillCallStack(left, cells);
        comparison_cells.FillCallStack(right, cells);
      }
      sheet.table.AddRow(cells);
    }
  }
  for (const ModuleSide* side : {&base, &comparison}) {
    if (side->cut()) {
      warnings.push_back(fmt::format("{}: python calls nested deeper than {} were left out",
                                     side->profile().path.string(), NestedIntervals::kMaxDepth));
    }
  }
  for (const ModuleSide* side : {&base, &comparison}) {
    if (side->cuts_paths()) {
      warnings.push_back(
          fmt::format("{}: paths of modules longer than {} bytes, or beyond {} MiB of all, are cut",
                      side->profile().path.string(), ModuleSide::kLongestPath,
                      ModuleSide::kMostPathBytes >> 20U));
    }
  }
  // Frames that are not modules are stacks as well: the column of a module shows them.
  const std::vector<profile::PythonCall>& frames = comparison.profile().python_calls;
  const bool has_frames =
      std::any_of(frames.begin(), frames.end(), [](const auto& call) { return !call.is_module; });
  if (!pairs.empty() && !comparison_cells.has_call_stacks() && !has_frames) {
    warnings.push_back(comparison.profile().path.string() +
                       ": no call stacks of operators; profile with with_stack=True to get them");
  }
  return sheet;
}

namespace {

using enum report::NumberFormat;

constexpr size_t kModuleStatisticColumnCount = 18;
constexpr std::array<SheetColumn, kModuleStatisticColumnCount> kModuleStatisticColumns = {
    {{"Order Id", 10, kInteger},
     {"Module Class", 20, kInteger},
     {"Module Level", 15, kInteger},
     {"Module Name", 35, kInteger},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(ms)", 20, kFixed2},
     {"Number", 10, kInteger},
     {"Device Total Time(ms)", 20, kFixed2},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(ms)", 20, kFixed2},
     {"Number", 10, kInteger},
     {"Device Total Time(ms)", 20, kFixed2},
     {"Device Total Time Diff(ms)", 20, kFixed2},
     {"Device Self Time Diff(ms)", 20, kFixed2},
     {"Diff Total Ratio", 15, kPercent},
     {"Base Call Stack", 30, kInteger},
     {"Comparison Call Stack", 30, kInteger}}};

using StatisticCells = std::array<Cell, kModuleStatisticColumnCount>;

// Modules of both sides with one path.
struct ModuleGroup {
  std::string_view path;
  std::array<std::vector<uint32_t>, 2> modules;
};

std::vector<ModuleGroup> GroupByPath(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs) {
  std::vector<ModuleGroup> groups;
  std::unordered_map<std::string_view, size_t> index;
  const auto add = [&](size_t side, std::string_view path, uint32_t module) {
    const auto [place, is_new] = index.emplace(path, groups.size());
    if (is_new) {
      groups.push_back({path, {}});
    }
    groups[place->second].modules[side].push_back(module);
  };
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      add(0, base.path(pair.base), pair.base);
    }
  }
  for (const AlignedPair& pair : pairs) {
    if (pair.comparison != kUnmatched) {
      add(1, comparison.path(pair.comparison), pair.comparison);
    }
  }
  return groups;
}

struct KernelSum {
  double ms = 0;
  int64_t count = 0;
};

// Operators of one name in the modules of a group, on one side.
struct OperatorSum {
  double ms = 0;
  int64_t count = 0;
  std::vector<std::pair<std::string_view, KernelSum>> kernels;  // by first appearance
  std::unordered_map<std::string_view, size_t> index;

  void AddKernel(std::string_view name, double kernel_ms) {
    const auto [place, is_new] = index.emplace(name, kernels.size());
    if (is_new) {
      kernels.push_back({name, {}});
    }
    KernelSum& sum = kernels[place->second].second;
    sum.ms += kernel_ms;
    ++sum.count;
    ms += kernel_ms;
  }
};

struct OperatorRow {
  std::string_view name;
  std::array<OperatorSum, 2> sides;
};

std::vector<OperatorRow> SumOperators(const std::array<const ModuleSide*, 2>& sides,
                                      const ModuleGroup& group) {
  std::vector<OperatorRow> rows;
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    const profile::Profile& profile = side.profile();
    for (const uint32_t module : group.modules[i]) {
      for (const ModuleOperator& operation : side.operators(module)) {
        const auto [place, is_new] = index.emplace(side.name(operation), rows.size());
        if (is_new) {
          rows.push_back({side.name(operation), {}});
        }
        OperatorSum& sum = rows[place->second].sides[i];
        ++sum.count;
        for (const uint32_t kernel : side.kernels(operation)) {
          sum.AddKernel(profile.texts[profile.kernels[kernel].name],
                        profile.kernels[kernel].duration_us / 1000);
        }
      }
    }
  }
  return rows;
}

void AddTotalRow(const std::array<const ModuleSide*, 2>& sides, const ModuleGroup& group,
                 StatisticCells cells, report::Table& table, KeptTexts& kept) {
  std::array<double, 2> self{};
  std::array<double, 2> total{};
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    for (const uint32_t module : group.modules[i]) {
      self[i] += side[module].self_us / 1000;
      total[i] += side[module].total_us / 1000;
    }
    const size_t first = 5 + 4 * i;
    cells[first + 1] = Cell::Number(self[i]);
    cells[first + 2] = Cell::Integer(static_cast<int64_t>(group.modules[i].size()));
    cells[first + 3] = Cell::Number(total[i]);
    if (!group.modules[i].empty()) {
      cells[16 + i] = kept(side.CallStack(group.modules[i].front()));
    }
  }
  const Difference difference = Differ(total[0], total[1]);
  cells[4] = Cell::Text("[ TOTAL ]");
  cells[13] = Cell::Number(difference.difference);
  cells[14] = Cell::Number(Differ(self[0], self[1]).difference);
  cells[15] = Cell::Number(difference.ratio);
  table.AddRow(cells);
}

void AddOperatorRow(const OperatorRow& row, StatisticCells cells, report::Table& table,
                    DetailText& details) {
  cells[4] = table.KeepText(row.name);
  for (size_t i = 0; i < row.sides.size(); ++i) {
    const OperatorSum& sum = row.sides[i];
    const size_t first = 5 + 4 * i;
    details.Clear();
    for (const auto& [name, kernel] : sum.kernels) {
      details.Add([&, &kernel_name = name, &kernel_sum = kernel](std::string& out) {
        fmt::format_to(std::back_inserter(out), "{}, [number: {}], [duration_ms: {:.3f}]\n",
                       kernel_name, kernel_sum.count, kernel_sum.ms);
      });
    }
    cells[first] = table.KeepText(details.text());
    cells[first + 1] = Cell::Number(sum.ms);
    cells[first + 2] = Cell::Integer(sum.count);
  }
  const Difference difference = Differ(row.sides[0].ms, row.sides[1].ms);
  cells[14] = Cell::Number(difference.difference);
  cells[15] = Cell::Number(difference.ratio);
  table.AddRow(cells);
}

}  // namespace

report::FormattedTable ModuleStatistic(const ModuleSide& base, const ModuleSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  report::FormattedTable sheet =
      MakeSheet("ModuleCompareStatistic", kModuleStatisticColumns, {5, 8}, {9, 12}, options);
  const std::array<const ModuleSide*, 2> sides = {&base, &comparison};
  KeptTexts kept(sheet.table);
  DetailText details(options.whole_texts);
  int64_t order = 0;
  for (const ModuleGroup& group : GroupByPath(base, comparison, pairs)) {
    StatisticCells cells;
    cells[1] = kept(ModuleClass(group.path));
    cells[2] = Cell::Integer(std::count(group.path.begin(), group.path.end(), '/'));
    cells[3] = sheet.table.KeepText(ModuleName(group.path));
    cells[0] = Cell::Integer(++order);
    AddTotalRow(sides, group, cells, sheet.table, kept);
    for (const OperatorRow& row : SumOperators(sides, group)) {
      cells[0] = Cell::Integer(++order);
      AddOperatorRow(row, cells, sheet.table, details);
    }
  }
  return sheet;
}

}  // namespace msprobe::analysis::perf
