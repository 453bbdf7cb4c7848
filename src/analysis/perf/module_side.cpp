#include "src/analysis/perf/module_side.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "src/analysis/perf/detail_text.h"
#include "src/profile/common/step_marker.h"

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

}  // namespace msprobe::analysis::perf
