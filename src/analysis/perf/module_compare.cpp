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

namespace {

using profile::kNoText;
using profile::Nanoseconds;
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
  return OrderBy(operators.size(), [&](uint32_t i) { return operators[i].start; });
}

}  // namespace

ModuleSide::ModuleSide(const OperatorSide& side) : side_(&side) {
  MakeForward();
  if (!has_modules_) {
    return;
  }
  MakeBackward();
  children_ = Lists(
      modules_.size(), modules_.size(), [this](size_t module) { return modules_[module].parent; },
      [](size_t module) { return static_cast<uint32_t>(module); });
  PlaceOperators();
}

void ModuleSide::MakeForward() {
  const Profile& profile = side_->profile();
  NestedIntervalList modules;
  NestedIntervalList functions;
  std::vector<std::string_view> names;
  for (const profile::PythonCall& call : profile.python_calls) {
    (call.is_module ? modules : functions).push_back({call.start, call.end});
    (call.is_module ? names : function_names_).push_back(profile.texts[call.name]);
  }
  has_modules_ = !modules.empty();
  if (!has_modules_) {
    return;
  }
  const auto optimizers = NamesThat(profile.texts, IsOptimizer);
  for (const Operator& operation : profile.operators) {
    if (optimizers[operation.name]) {
      modules.push_back({operation.start, operation.end});
      names.push_back(profile.texts[operation.name]);
    }
  }
  functions_ = NestedIntervals(functions, {});
  forward_ = NestedIntervals(modules, side_->links().times());
  AddModules(forward_, names);
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
  std::vector<std::string_view> names;
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
    names.push_back(backward_texts_[name]);
    intervals.push_back({operation.start, operation.end});
  }
  backward_ = NestedIntervals(intervals, side_->links().times());
  AddModules(backward_, names);
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
  const auto offset = static_cast<uint32_t>(modules_.size());
  // Paths are spelled out once per parent path and name.
  std::unordered_map<std::string_view, TextId> name_numbers;
  std::unordered_map<uint64_t, TextId> known;
  for (const NestedIntervals::Node& node : tree.nodes()) {
    const std::string_view name = names[node.interval];
    const TextId number =
        name_numbers.emplace(name, static_cast<TextId>(name_numbers.size())).first->second;
    Module module;
    module.name = name;
    module.start = node.start;
    TextId above = kNoText;
    if (node.parent != kNoNode) {
      module.parent = offset + node.parent;
      module.level = modules_[module.parent].level + 1;
      above = modules_[module.parent].path;
    }
    const auto [place, is_new] = known.emplace(uint64_t{above} << 32U | number, kNoText);
    if (is_new) {
      place->second = PathOf(above, name);
    }
    module.path = place->second;
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
  std::vector<uint32_t> operators;
  std::vector<uint32_t> module_of;  // of each of them
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
    operators.push_back(i);
    module_of.push_back(module);
  }
  const Lists operators_in(
      outside + size_t{1}, operators.size(), [&](size_t i) { return module_of[i]; },
      [&](size_t i) { return operators[i]; });

  // Launches, each in the innermost module of either tree.
  std::vector<NestedIntervals::Placed> launches(forward_.placed().begin(), forward_.placed().end());
  for (const auto& [marker, node] : backward_.placed()) {
    launches.push_back({marker, node + forward_count()});
  }
  std::vector<bool> is_placed(side_->links().times().size());
  for (const NestedIntervals::Placed& launch : launches) {
    is_placed[launch.marker] = true;
  }
  for (uint32_t i = 0; i < is_placed.size(); ++i) {
    if (!is_placed[i]) {
      launches.push_back({i, outside});
    }
  }
  const Lists launches_in(
      outside + size_t{1}, launches.size(), [&](size_t i) { return launches[i].node; },
      [&](size_t i) { return launches[i].marker; });

  std::vector<Nanoseconds> open;  // ends of the operators around the next one
  for (uint32_t module = 0; module <= outside; ++module) {
    const size_t first = operators_.size();
    open.clear();
    for (const uint32_t index : operators_in[module]) {
      const Operator& operation = profile.operators[index];
      while (!open.empty() && operation.start > open.back()) {
        open.pop_back();
      }
      if (open.empty()) {
        operators_.push_back({index, 0, 0});
      }
      open.push_back(operation.end);
    }
    TakeKernels(first, launches_in[module]);
    if (module < outside) {
      modules_[module].first_operator = static_cast<uint32_t>(first);
      modules_[module].operator_count = static_cast<uint32_t>(operators_.size() - first);
    } else {
      first_outside_ = first;
    }
  }
}

// Both operators and launches rise in time; a launch before an operator's start belongs to none.
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

std::string ModuleSide::CallStack(uint32_t module) const {
  std::vector<std::string_view> calls;  // innermost first
  for (uint32_t node = functions_.Find(modules_[module].start); node != kNoNode;
       node = functions_[node].parent) {
    calls.push_back(function_names_[functions_[node].interval]);
  }
  for (bool found = !calls.empty(); !found && module != kNoNode; module = modules_[module].parent) {
    calls.push_back(modules_[module].name);
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

// Level by level, from pairs around.
std::vector<AlignedPair> MatchTrees(const ModuleSide& base, const ModuleSide& comparison,
                                    const PairOptions& options) {
  SharedNames paths(base.paths(), comparison.paths());
  std::vector<AlignedPair> pairs;
  const auto pair_up = [&](std::span<const uint32_t> left, std::span<const uint32_t> right) {
    if (left.empty() || right.empty() || !options.details) {
      AppendUnmatched(left, right, pairs);
      return;
    }
    AlignNodes(
        left, right, [&](uint32_t module) { return base[module].path; },
        [&](uint32_t module) { return paths(comparison[module].path); }, options.alignment, pairs);
  };
  pair_up(base.forward_roots(), comparison.forward_roots());
  pair_up(base.backward_roots(), comparison.backward_roots());
  using Modules = std::span<const uint32_t>;
  for (size_t i = 0; i < pairs.size(); ++i) {  // grows meanwhile
    const AlignedPair pair = pairs[i];
    pair_up(pair.base == kUnmatched ? Modules() : base.children(pair.base),
            pair.comparison == kUnmatched ? Modules() : comparison.children(pair.comparison));
  }
  return pairs;
}

}  // namespace

bool CanCompareModules(const ModuleSide& base, const ModuleSide& comparison,
                       const PairOptions& options) {
  return options.modules && base.has_modules() && comparison.has_modules();
}

std::vector<AlignedPair> MatchModules(const ModuleSide& base, const ModuleSide& comparison,
                                      const PairOptions& options) {
  const std::vector<AlignedPair> matched = MatchTrees(base, comparison, options);
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

// A module, or an operator in it.
struct ModuleRow {
  struct Side {
    Cell name, details;
    double self_us = 0;
    Cell total_us;
  };
  Cell module_class;
  int64_t level = 0;
  Cell module_name;
  std::array<Side, 2> sides;
  Cell total_difference;
  double self_difference = 0;
  double ratio = 1;
  Cell base_stack, comparison_stack;
};

SheetColumns<ModuleRow> ModuleColumns() {
  using Side = ModuleRow::Side;
  return {{{"Order Id", 10, kInteger, kRowNumber},
           {"Module Class", 20, kInteger, &ModuleRow::module_class},
           {"Module Level", 15, kInteger, &ModuleRow::level},
           {"Module Name", 35, kInteger, &ModuleRow::module_name}},
          {{"Operator Name", 25, kInteger, &Side::name},
           {"Kernel Details", 20, kInteger, &Side::details},
           {"Device Self Time(us)", 20, kFixed2, &Side::self_us},
           {"Device Total Time(us)", 20, kFixed2, &Side::total_us}},
          {{"Device Total Time Diff(us)", 20, kFixed2, &ModuleRow::total_difference},
           {"Device Self Time Diff(us)", 20, kFixed2, &ModuleRow::self_difference},
           {"Diff Total Ratio", 15, kPercent, &ModuleRow::ratio},
           {"Base Call Stack", 30, kInteger, &ModuleRow::base_stack},
           {"Comparison Call Stack", 30, kInteger, &ModuleRow::comparison_stack}}};
}

// One side of the sheet ModuleCompare.
class SideCells {
 public:
  SideCells(const ModuleSide& side, report::Table& table, KeptTexts& kept, bool whole_texts)
      : side_(side),
        table_(table),
        kept_(kept),
        texts_(side.profile().texts, table),
        details_(whole_texts) {}

  // Some operator has a call stack.
  bool has_call_stacks() const { return has_call_stacks_; }

  // Returns the total time.
  double FillModule(uint32_t module, ModuleRow::Side& cells, Cell& call_stack) {
    cells.name = Cell::Text("TOTAL");
    const double total_us = module == kUnmatched ? 0 : side_[module].total_us;
    cells.total_us = Cell::Number(total_us);
    if (module != kUnmatched) {
      cells.self_us = side_[module].self_us;
      call_stack = kept_(side_.CallStack(module));
    }
    return total_us;
  }

  // Null, here and below: this side has no such operator.
  void FillOperator(const ModuleOperator* module_operator, ModuleRow::Side& cells) {
    if (module_operator == nullptr) {
      return;
    }
    const Operator& operation = side_.profile().operators[module_operator->operation];
    details_.Clear();
    for (const uint32_t index : side_.kernels(*module_operator)) {
      const profile::Kernel& kernel = side_.profile().kernels[index];
      cells.self_us += kernel.duration_us;
      details_.Add([&](std::string& out) { AppendKernelText(side_.profile(), kernel, out); });
    }
    cells.name = texts_(operation.name);
    cells.details = table_.KeepText(details_.text());
    has_call_stacks_ = has_call_stacks_ || operation.call_stack != profile::kNoText;
  }
  Cell CallStack(const ModuleOperator* module_operator) {
    if (module_operator == nullptr) {
      return {};
    }
    const TextId stack = side_.profile().operators[module_operator->operation].call_stack;
    return stack == kNoText ? Cell::Text("N/A") : texts_(stack);
  }

 private:
  const ModuleSide& side_;
  report::Table& table_;
  KeptTexts& kept_;
  TextCells texts_;
  DetailText details_;
  bool has_call_stacks_ = false;
};

const ModuleOperator* OperatorAt(const ModuleSide& side, uint32_t module, uint32_t place) {
  return place == kUnmatched ? nullptr : &side.operators(module)[place];
}

// Appends pairs of the operators of a pair of modules, aligned by name; places in the modules' own
// lists.
void AlignOperators(const ModuleSide& base, const ModuleSide& comparison,
                    const AlignedPair& modules, SharedNames& names, Alignment method,
                    std::vector<AlignedPair>& pairs) {
  const auto places = [](const ModuleSide& side, uint32_t module) {
    std::vector<uint32_t> all(module == kUnmatched ? 0 : side.operators(module).size());
    std::iota(all.begin(), all.end(), 0U);
    return all;
  };
  const auto name_of = [](const ModuleSide& side, uint32_t module, uint32_t place) {
    return side.profile().operators[OperatorAt(side, module, place)->operation].name;
  };
  AlignNodes(
      places(base, modules.base), places(comparison, modules.comparison),
      [&](uint32_t place) { return name_of(base, modules.base, place); },
      [&](uint32_t place) { return names(name_of(comparison, modules.comparison, place)); }, method,
      pairs);
}

}  // namespace

report::FormattedTable ModuleDetails(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     std::vector<std::string>& warnings) {
  Sheet<ModuleRow> sheet("ModuleCompare", ModuleColumns(), options);
  KeptTexts kept(sheet.table());
  SideCells base_cells(base, sheet.table(), kept, options.whole_texts);
  SideCells comparison_cells(comparison, sheet.table(), kept, options.whole_texts);
  SharedNames names(base.profile().texts, comparison.profile().texts);
  std::vector<AlignedPair> operators;
  for (const AlignedPair& pair : pairs) {
    const bool in_base = pair.base != kUnmatched;
    const std::string_view path = in_base ? base.path(pair.base) : comparison.path(pair.comparison);
    ModuleRow shared;
    shared.module_class = kept(ModuleClass(path));
    shared.level = in_base ? base[pair.base].level : comparison[pair.comparison].level;
    shared.module_name = kept(ModuleName(path));

    ModuleRow row = shared;
    const double base_us = base_cells.FillModule(pair.base, row.sides[0], row.base_stack);
    const Difference total = Differ(
        base_us, comparison_cells.FillModule(pair.comparison, row.sides[1], row.comparison_stack));
    row.total_difference = Cell::Number(total.difference);
    row.self_difference = Differ(row.sides[0].self_us, row.sides[1].self_us).difference;
    row.ratio = total.ratio;
    sheet.Add(row);

    operators.clear();
    AlignOperators(base, comparison, pair, names, options.alignment, operators);
    for (const AlignedPair& places : operators) {
      const ModuleOperator* left = OperatorAt(base, pair.base, places.base);
      const ModuleOperator* right = OperatorAt(comparison, pair.comparison, places.comparison);
      row = shared;
      base_cells.FillOperator(left, row.sides[0]);
      comparison_cells.FillOperator(right, row.sides[1]);
      const Difference self = Differ(row.sides[0].self_us, row.sides[1].self_us);
      row.self_difference = self.difference;
      row.ratio = self.ratio;
      if (self.difference > 0) {
        row.base_stack = base_cells.CallStack(left);
        row.comparison_stack = comparison_cells.CallStack(right);
      }
      sheet.Add(row);
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
  return sheet.Take();
}

namespace {

// The modules of a path, or operators of one name in them.
struct ModuleStatisticRow {
  struct Side {
    Cell details;
    double self_ms = 0;
    int64_t count = 0;
    Cell total_ms;
  };
  Cell module_class;
  int64_t level = 0;
  Cell module_name, operator_name;
  std::array<Side, 2> sides;
  Cell total_difference;
  double self_difference = 0;
  double ratio = 1;
  Cell base_stack, comparison_stack;
};

SheetColumns<ModuleStatisticRow> ModuleStatisticColumns() {
  using Row = ModuleStatisticRow;
  return {{{"Order Id", 10, kInteger, kRowNumber},
           {"Module Class", 20, kInteger, &Row::module_class},
           {"Module Level", 15, kInteger, &Row::level},
           {"Module Name", 35, kInteger, &Row::module_name},
           {"Operator Name", 25, kInteger, &Row::operator_name}},
          {{"Kernel Details", 20, kInteger, &Row::Side::details},
           {"Device Self Time(ms)", 20, kFixed2, &Row::Side::self_ms},
           {"Number", 10, kInteger, &Row::Side::count},
           {"Device Total Time(ms)", 20, kFixed2, &Row::Side::total_ms}},
          {{"Device Total Time Diff(ms)", 20, kFixed2, &Row::total_difference},
           {"Device Self Time Diff(ms)", 20, kFixed2, &Row::self_difference},
           {"Diff Total Ratio", 15, kPercent, &Row::ratio},
           {"Base Call Stack", 30, kInteger, &Row::base_stack},
           {"Comparison Call Stack", 30, kInteger, &Row::comparison_stack}}};
}

// Modules of both sides with one path.
struct ModuleGroup {
  std::string_view path;
  std::array<std::vector<uint32_t>, 2> modules;
};

std::vector<ModuleGroup> GroupByPath(const std::array<const ModuleSide*, 2>& sides,
                                     std::span<const AlignedPair> pairs) {
  Ordered<std::string_view, ModuleGroup> groups;
  for (size_t i = 0; i < sides.size(); ++i) {
    for (const AlignedPair& pair : pairs) {
      if (const uint32_t module = i == 0 ? pair.base : pair.comparison; module != kUnmatched) {
        const std::string_view path = sides[i]->path(module);
        groups.At(path, [&] { return ModuleGroup{path, {}}; }).modules[i].push_back(module);
      }
    }
  }
  return std::move(groups.items());
}

// Operators of one name in the modules of a group, on one side.
struct OperatorSum {
  struct KernelSum {
    std::string_view name;
    double ms = 0;
    int64_t count = 0;
  };
  double ms = 0;
  int64_t count = 0;
  Ordered<std::string_view, KernelSum> kernels;
};

struct OperatorSums {
  std::string_view name;
  std::array<OperatorSum, 2> sides;
};

std::vector<OperatorSums> SumOperators(const std::array<const ModuleSide*, 2>& sides,
                                       const ModuleGroup& group) {
  Ordered<std::string_view, OperatorSums> sums;
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    const profile::Profile& profile = side.profile();
    for (const uint32_t module : group.modules[i]) {
      for (const ModuleOperator& operation : side.operators(module)) {
        const std::string_view name = side.name(operation);
        OperatorSum& sum = sums.At(name, [&] { return OperatorSums{name, {}}; }).sides[i];
        ++sum.count;
        for (const uint32_t index : side.kernels(operation)) {
          const std::string_view kernel = profile.texts[profile.kernels[index].name];
          const double ms = profile.kernels[index].duration_us / kUsPerMs;
          OperatorSum::KernelSum& part =
              sum.kernels.At(kernel, [&] { return OperatorSum::KernelSum{kernel}; });
          part.ms += ms;
          ++part.count;
          sum.ms += ms;
        }
      }
    }
  }
  return std::move(sums.items());
}

void AddTotalRow(const std::array<const ModuleSide*, 2>& sides, const ModuleGroup& group,
                 ModuleStatisticRow row, KeptTexts& kept, Sheet<ModuleStatisticRow>& sheet) {
  std::array<double, 2> total{};
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    for (const uint32_t module : group.modules[i]) {
      row.sides[i].self_ms += side[module].self_us / kUsPerMs;
      total[i] += side[module].total_us / kUsPerMs;
    }
    row.sides[i].count = static_cast<int64_t>(group.modules[i].size());
    row.sides[i].total_ms = Cell::Number(total[i]);
    if (!group.modules[i].empty()) {
      (i == 0 ? row.base_stack : row.comparison_stack) =
          kept(side.CallStack(group.modules[i].front()));
    }
  }
  const Difference difference = Differ(total[0], total[1]);
  row.operator_name = Cell::Text("[ TOTAL ]");
  row.total_difference = Cell::Number(difference.difference);
  row.self_difference = Differ(row.sides[0].self_ms, row.sides[1].self_ms).difference;
  row.ratio = difference.ratio;
  sheet.Add(row);
}

void AddOperatorRow(const OperatorSums& sums, ModuleStatisticRow row, DetailText& details,
                    Sheet<ModuleStatisticRow>& sheet) {
  row.operator_name = sheet.table().KeepText(sums.name);
  for (size_t i = 0; i < sums.sides.size(); ++i) {
    details.Clear();
    for (const OperatorSum::KernelSum& kernel : sums.sides[i].kernels.items()) {
      details.Add([&](std::string& out) {
        fmt::format_to(std::back_inserter(out), "{}, [number: {}], [duration_ms: {:.3f}]\n",
                       kernel.name, kernel.count, kernel.ms);
      });
    }
    row.sides[i] = {sheet.table().KeepText(details.text()), sums.sides[i].ms, sums.sides[i].count,
                    Cell()};
  }
  const Difference difference = Differ(sums.sides[0].ms, sums.sides[1].ms);
  row.self_difference = difference.difference;
  row.ratio = difference.ratio;
  sheet.Add(row);
}

}  // namespace

report::FormattedTable ModuleStatistic(const ModuleSide& base, const ModuleSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  Sheet<ModuleStatisticRow> sheet("ModuleCompareStatistic", ModuleStatisticColumns(), options);
  const std::array<const ModuleSide*, 2> sides = {&base, &comparison};
  KeptTexts kept(sheet.table());
  DetailText details(options.whole_texts);
  for (const ModuleGroup& group : GroupByPath(sides, pairs)) {
    ModuleStatisticRow row;
    row.module_class = kept(ModuleClass(group.path));
    row.level = std::count(group.path.begin(), group.path.end(), '/');
    row.module_name = sheet.table().KeepText(ModuleName(group.path));
    AddTotalRow(sides, group, row, kept, sheet);
    for (const OperatorSums& sums : SumOperators(sides, group)) {
      AddOperatorRow(sums, row, details, sheet);
    }
  }
  return sheet.Take();
}

}  // namespace msprobe::analysis::perf
