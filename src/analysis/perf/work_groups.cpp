#include "src/analysis/perf/work_groups.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "src/analysis/perf/kernel_names.h"
#include "src/analysis/perf/module_match.h"
#include "src/analysis/perf/units.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using profile::kNoText;
using profile::Profile;
using profile::TextId;
using Kind = HostTree::Kind;

constexpr size_t kMostCallers = 12;

// The operator that an engine's frame around it stands for.
std::string_view WithoutEngine(std::string_view name) {
  constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
  return name.starts_with(kEngine) ? name.substr(kEngine.size()) : name;
}

// Where a piece of work was launched, by names of one profile.
struct LaunchContext {
  TextId outer = kNoText;       // the outermost operator
  TextId module = kNoText;      // the innermost module
  TextId annotation = kNoText;  // the innermost marked range
  bool is_backward = false;     // the module's, of the forward pass
  bool by_graph = false;
  bool operator==(const LaunchContext&) const = default;
};
struct LaunchContextHash {
  size_t operator()(const LaunchContext& context) const {
    uint64_t mixed = uint64_t{context.outer} << 32U | context.module;
    mixed ^= (uint64_t{context.annotation} << 2U | uint64_t{context.is_backward} << 1U |
              uint64_t{context.by_graph}) *
             0x9E3779B97F4A7C15U;
    return static_cast<size_t>(mixed * 0xD6E8FEB86659FD93U);
  }
};

// Modules of backward operators: those that the forward operators lie in which they belong to.
class BackwardModules {
 public:
  BackwardModules(const Profile& side, const HostTree& tree) : tree_(tree) {
    const bool any = std::any_of(side.python_calls.begin(), side.python_calls.end(),
                                 [](const auto& call) { return call.is_module; });
    if (any) {
      flows_ = side.forward_backward;
      std::stable_sort(flows_.begin(), flows_.end(),
                       [](const auto& a, const auto& b) { return a.end < b.end; });
    }
  }

  TextId Of(uint32_t node) const {
    for (int step = 0; node != HostTree::kNone && !flows_.empty() && step < HostTree::kDeepest;
         node = tree_[node].parent, ++step) {
      const auto found = std::lower_bound(flows_.begin(), flows_.end(), tree_[node].start,
                                          [](const auto& flow, auto at) { return flow.end < at; });
      if (found == flows_.end() || found->end != tree_[node].start) {
        continue;
      }
      const uint32_t forward = tree_.Find(found->start_process, found->start_thread, found->start);
      const uint32_t module = tree_.Nearest(forward, Kind::kModule);
      if (module != HostTree::kNone) {
        return tree_[module].name;
      }
    }
    return kNoText;
  }

 private:
  const HostTree& tree_;
  std::vector<profile::Flow> flows_;  // by the backward operator's start
};

class Grouper {
 public:
  explicit Grouper(const std::map<std::string, std::string>& names) : names_(names) {}

  std::vector<WorkGroup> Take() { return std::move(groups_); }

  // The side whose work is added from now on.
  void Begin(size_t side, const Profile& profile, const HostTree& tree) {
    side_ = side;
    profile_ = &profile;
    tree_ = &tree;
    by_operator_.clear();
    by_kernel_.clear();
    kernel_labels_.clear();
    contexts_.clear();
    seen_.assign(tree.nodes().size(), false);
    backward_.emplace(profile, tree);
  }

  // `leaf`: the operator whose work it is, or HostTree::kNone; `kernel`: kNoText for work of the
  // host.
  void Add(uint32_t leaf, uint32_t around, TextId kernel, bool by_graph, double ms) {
    Tallied key;
    key.group = leaf != HostTree::kNone ? GroupOfOperator(leaf, kernel) : GroupOfKernel(kernel);
    key.context = &ContextOf(leaf != HostTree::kNone ? leaf : around, leaf, by_graph);
    key.kernel = kernel;
    const bool is_call = leaf == HostTree::kNone || !seen_[leaf];
    if (leaf != HostTree::kNone) {
      seen_[leaf] = true;
      const profile::Operator& operation = profile_->operators[(*tree_)[leaf].operation];
      key.shapes = operation.shapes;
      key.types = operation.types;
    }
    const auto [place, is_new] = places_.try_emplace(key, tallies_.size());
    if (is_new) {
      tallies_.emplace_back(key, Tally());
    }
    Tally& tally = tallies_[place->second].second;
    tally.ms += ms;
    tally.calls += is_call ? 1 : 0;
    ++tally.kernels;
    if (is_new) {
      Witness(leaf, around, groups_[key.group]);
    }
  }

  // Ends a side.
  void End() {
    for (const auto& [key, tally] : tallies_) {
      WorkGroup& group = groups_[key.group];
      const auto put = [this, ms = tally.ms](Amounts& amounts, int64_t calls) {
        amounts[side_].ms += ms;
        amounts[side_].calls += calls;
      };
      put(group.total, tally.calls);
      put(group.contexts[*key.context], tally.calls);
      if (key.kernel != kNoText) {
        const std::string& label = KernelLabel(key.kernel);
        put(group.kernels[label], tally.kernels);
        group.families.try_emplace(label, KernelFamily(Text(key.kernel)));
      }
      // "[]" and "N/A" tell nothing.
      if (Text(key.shapes).size() > 3) {
        put(group.shapes[std::string(Text(key.shapes))], tally.calls);
        put(group.types[std::string(Text(key.types))], tally.calls);
      }
    }
    tallies_.clear();
    places_.clear();
  }

  // Work of the host that no operator stands for.
  void AddNamed(const std::string& label, double ms) {
    const auto [found, is_new] = by_label_.try_emplace(label, groups_.size());
    if (is_new) {
      groups_.emplace_back().label = label;
      groups_.back().family = "host";
    }
    Amount& amount = groups_[found->second].total[side_];
    amount.ms += ms;
    ++amount.calls;
  }

 private:
  std::string_view Text(TextId id) const { return profile_->texts[id]; }

  std::string OperatorLabel(TextId name) const {
    std::string label = NeutralName(WithoutEngine(Text(name)));
    const auto other = names_.find(label);
    return other == names_.end() ? label : other->second;
  }
  const std::string& KernelLabel(TextId kernel) {
    const auto [found, is_new] = kernel_labels_.try_emplace(kernel);
    if (is_new) {
      found->second = ShortKernelName(NeutralName(Text(kernel)));
    }
    return found->second;
  }

  void Witness(uint32_t leaf, uint32_t around, WorkGroup& group) const {
    if (leaf != HostTree::kNone && group.call_stack.empty()) {
      group.call_stack = Text(profile_->operators[(*tree_)[leaf].operation].call_stack);
    }
    if (group.call_stack.empty() && !profile_->python_calls.empty()) {
      group.call_stack = FramesAround(leaf != HostTree::kNone ? leaf : around);
    }
    if (group.callers.empty()) {
      FillCallers(leaf != HostTree::kNone ? (*tree_)[leaf].parent : around, group);
    }
  }

  // The innermost frames of python, a line each, the innermost last; empty: none were recorded.
  std::string FramesAround(uint32_t node) const {
    constexpr size_t kMostFrames = 8;
    std::vector<std::string> frames;
    for (int step = 0;
         node != HostTree::kNone && frames.size() < kMostFrames && step < HostTree::kDeepest;
         node = (*tree_)[node].parent, ++step) {
      const HostTree::Node& known = (*tree_)[node];
      if (known.kind == Kind::kPython && !Text(known.name).starts_with('<')) {
        frames.emplace_back(Text(known.name));
      }
    }
    std::reverse(frames.begin(), frames.end());
    return base::Join(frames, "\n");
  }

  size_t GroupAt(std::unordered_map<TextId, size_t>& known, TextId name, TextId kernel,
                 bool is_operator) {
    const auto [place, is_new] = known.try_emplace(name, 0);
    if (is_new) {
      std::string label = is_operator ? OperatorLabel(name) : KernelLabel(name);
      const auto [found, is_first] = by_label_.try_emplace(label, groups_.size());
      if (is_first) {
        WorkGroup& group = groups_.emplace_back();
        group.label = std::move(label);
        group.is_operator = is_operator;
        group.family = kernel == kNoText ? "host" : KernelFamily(Text(kernel));
      }
      place->second = found->second;
    }
    return place->second;
  }
  size_t GroupOfOperator(uint32_t leaf, TextId kernel) {
    return GroupAt(by_operator_, (*tree_)[leaf].name, kernel, true);
  }
  size_t GroupOfKernel(TextId kernel) { return GroupAt(by_kernel_, kernel, kernel, false); }

  LaunchContext LaunchContextOf(uint32_t node, bool by_graph) const {
    LaunchContext context;
    context.by_graph = by_graph;
    const uint32_t first = node;
    for (int step = 0; node != HostTree::kNone && step < HostTree::kDeepest;
         node = (*tree_)[node].parent, ++step) {
      const HostTree::Node& known = (*tree_)[node];
      if (known.kind == Kind::kOperator) {
        context.outer = known.name;
      } else if (known.kind == Kind::kModule && context.module == kNoText) {
        context.module = known.name;
      } else if (known.kind == Kind::kAnnotation && context.annotation == kNoText) {
        context.annotation = known.name;
      }
    }
    if (context.module == kNoText) {
      context.module = backward_->Of(first);
      context.is_backward = context.module != kNoText;
    }
    return context;
  }

  const std::string& ContextOf(uint32_t node, uint32_t leaf, bool by_graph) {
    LaunchContext context = LaunchContextOf(node, by_graph);
    // What the leaf itself is called is known.
    if (leaf != HostTree::kNone && context.outer != kNoText &&
        WithoutEngine(Text(context.outer)) == WithoutEngine(Text((*tree_)[leaf].name))) {
      context.outer = kNoText;
    }
    const auto [found, is_new] = contexts_.try_emplace(context);
    if (is_new) {
      std::string& text = found->second;
      if (context.outer != kNoText) {
        text += " in ";
        text += WithoutEngine(Text(context.outer));
      }
      if (context.module != kNoText) {
        text += " under ";
        text += ModuleClass(Text(context.module));
        text += context.is_backward ? " (backward)" : "";
      } else if (context.annotation != kNoText) {
        text += " under ";
        text += Text(context.annotation);
      }
      text += by_graph ? " (launched by a graph)" : "";
    }
    return found->second;
  }

  void FillCallers(uint32_t node, WorkGroup& group) const {
    for (int step = 0; node != HostTree::kNone && group.callers.size() < kMostCallers &&
                       step < HostTree::kDeepest;
         node = (*tree_)[node].parent, ++step) {
      const HostTree::Node& known = (*tree_)[node];
      if (known.kind == Kind::kOperator || known.kind == Kind::kAnnotation) {
        group.callers.emplace_back(WithoutEngine(Text(known.name)));
      } else if (known.kind == Kind::kModule) {
        group.callers.emplace_back(ModuleClass(Text(known.name)));
      }
    }
  }

  // Equal pieces of work of one side.
  struct Tallied {
    size_t group = 0;
    const std::string* context = nullptr;
    TextId kernel = kNoText;
    TextId shapes = kNoText;
    TextId types = kNoText;
    bool operator==(const Tallied&) const = default;
  };
  struct TalliedHash {
    size_t operator()(const Tallied& key) const {
      uint64_t mixed = key.group * 0x9E3779B97F4A7C15U;
      for (const uint64_t part : {reinterpret_cast<uint64_t>(key.context), uint64_t{key.kernel},
                                  uint64_t{key.shapes}, uint64_t{key.types}}) {
        mixed = (mixed ^ part) * 0xD6E8FEB86659FD93U;
        mixed ^= mixed >> 32U;
      }
      return static_cast<size_t>(mixed);
    }
  };
  struct Tally {
    double ms = 0;
    int64_t calls = 0;
    int64_t kernels = 0;
  };

  const std::map<std::string, std::string>& names_;
  std::vector<WorkGroup> groups_;
  std::unordered_map<std::string, size_t> by_label_;

  // Of the side at hand.
  size_t side_ = 0;
  const Profile* profile_ = nullptr;
  const HostTree* tree_ = nullptr;
  std::unordered_map<TextId, size_t> by_operator_;
  std::unordered_map<TextId, size_t> by_kernel_;
  std::unordered_map<TextId, std::string> kernel_labels_;
  std::unordered_map<LaunchContext, std::string, LaunchContextHash> contexts_;
  std::vector<std::pair<Tallied, Tally>> tallies_;  // in order of first appearance
  std::unordered_map<Tallied, size_t, TalliedHash> places_;
  std::vector<bool> seen_;  // operators whose call was counted
  std::optional<BackwardModules> backward_;
};

double OwnedShare(const DeviceWork& work) {
  double owned = 0;
  double all = 0;
  for (const WorkItem& item : work.items()) {
    if (item.kind == WorkKind::kComputing) {
      all += item.us;
      owned += item.owner == Owner::kOperator && !item.by_graph ? item.us : 0;
    }
  }
  return all > 0 ? owned / all : 0;
}

}  // namespace

GroupBy ChooseGrouping(const DeviceWork& base, const DeviceWork& comparison) {
  constexpr double kAlike = 0.25;
  return std::fabs(OwnedShare(base) - OwnedShare(comparison)) <= kAlike ? GroupBy::kOperator
                                                                        : GroupBy::kKernel;
}

std::vector<WorkGroup> GroupComputing(const DeviceWork& base, const DeviceWork& comparison,
                                      GroupBy by, const std::map<std::string, std::string>& names) {
  Grouper grouper(names);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const DeviceWork& work = side == 0 ? base : comparison;
    grouper.Begin(side, work.profile(), work.tree());
    for (const WorkItem& item : work.items()) {
      if (item.kind != WorkKind::kComputing) {
        continue;
      }
      // An NPU's tasks that nothing launched are counted by its overlap analysis only.
      if (work.profile().device == profile::Device::kNpu && !item.has_launch) {
        continue;
      }
      // All kernels of a graph have one launch: the kernel says more than the operator around it.
      const uint32_t leaf = by == GroupBy::kOperator && !item.by_graph
                                ? work.tree().OperatorOf(item.node)
                                : HostTree::kNone;
      grouper.Add(leaf, item.node, item.name, item.by_graph, item.us / kUsPerMs);
    }
    grouper.End();
  }
  return grouper.Take();
}

std::vector<WorkGroup> GroupHostWork(const HostTree& base, const Profile& base_profile,
                                     const HostTree& comparison, const Profile& comparison_profile,
                                     const std::map<std::string, std::string>& names) {
  Grouper grouper(names);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const HostTree& tree = side == 0 ? base : comparison;
    const Profile& profile = side == 0 ? base_profile : comparison_profile;
    grouper.Begin(side, profile, tree);
    for (uint32_t node = 0; node < tree.nodes().size(); ++node) {
      const double ms = static_cast<double>(tree[node].self) / kNsPerMs;
      if (tree[node].kind == Kind::kOperator) {
        grouper.Add(node, node, kNoText, false, ms);
      } else if (tree[node].kind == Kind::kStep) {
        grouper.AddNamed("python code outside of operators", ms);
      } else if (tree[node].kind == Kind::kAnnotation) {
        const std::string_view name = profile.texts[tree[node].name];
        grouper.AddNamed(name.find("DataLoader") != std::string_view::npos
                             ? std::string(name)
                             : "python code in " + std::string(name),
                         ms);
      } else if (tree[node].kind != Kind::kRuntime) {
        grouper.AddNamed("python: " + std::string(profile.texts[tree[node].name]), ms);
      }
    }
    grouper.End();
  }
  return grouper.Take();
}

}  // namespace msprobe::analysis::perf
