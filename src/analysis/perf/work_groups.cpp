#include "src/analysis/perf/work_groups.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/kernel_compare.h"
#include "src/analysis/perf/module_compare.h"
#include "src/analysis/perf/overall_times.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using profile::kNoText;
using profile::Profile;
using profile::TextId;
using Kind = HostTree::Kind;

constexpr size_t kMostCallers = 12;

// Without the frame that the autograd engine puts around an operator.
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
    TextId module = kNoText;
    const auto find_module = [&](uint32_t caller) {
      const auto found = std::lower_bound(flows_.begin(), flows_.end(), tree_[caller].start,
                                          [](const auto& flow, auto at) { return flow.end < at; });
      if (found == flows_.end() || found->end != tree_[caller].start) {
        return false;
      }
      const uint32_t forward = tree_.Nearest(
          tree_.Find(found->start_process, found->start_thread, found->start), Kind::kModule);
      module = forward == HostTree::kNone ? kNoText : tree_[forward].name;
      return forward != HostTree::kNone;
    };
    if (!flows_.empty()) {
      tree_.FirstCaller(node, find_module);
    }
    return module;
  }

 private:
  const HostTree& tree_;
  std::vector<profile::Flow> flows_;  // by the backward operator's start
};

class Grouper {
 public:
  explicit Grouper(const std::map<std::string, std::string>& names) : names_(names) {}

  std::vector<WorkGroup> Take() { return std::move(groups_.items()); }

  // Groups that there may be: growing by doubling holds each of them twice for a moment.
  void Reserve(size_t most) { groups_.items().reserve(most); }

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
    key.group = leaf != HostTree::kNone ? GroupAt(by_operator_, (*tree_)[leaf].name, kernel, true)
                                        : GroupAt(by_kernel_, kernel, kernel, false);
    key.context = &ContextOf(leaf != HostTree::kNone ? leaf : around, leaf, by_graph);
    key.kernel = kernel;
    const bool is_call = leaf == HostTree::kNone || !seen_[leaf];
    if (leaf != HostTree::kNone) {
      seen_[leaf] = true;
      const profile::Operator& operation = profile_->operators[(*tree_)[leaf].operation];
      key.shapes = operation.shapes;
      key.types = operation.types;
    }
    Tally& tally = tallies_.At(key, [&] {
      Witness(leaf, around, groups_[key.group]);
      return Tally{key};
    });
    tally.ms += ms;
    tally.calls += is_call ? 1 : 0;
    ++tally.kernels;
  }

  // Ends a side.
  void End() {
    for (const Tally& tally : tallies_.items()) {
      const Tallied& key = tally.key;
      WorkGroup& group = groups_[key.group];
      const auto put = [this, ms = tally.ms](Amounts& amounts, int64_t calls) {
        amounts[side_].ms += ms;
        amounts[side_].calls += calls;
      };
      put(group.total, tally.calls);
      put(group.contexts[*key.context], tally.calls);
      if (key.kernel != kNoText) {
        const std::string& label = KernelLabel(key.kernel);
        const auto [kernel, is_new] = group.kernels.try_emplace(label);
        put(kernel->second, tally.kernels);
        if (const std::string_view family = KernelFamily(Text(key.kernel));
            is_new && family != group.family) {
          group.families.emplace(label, family);
        }
      }
      // "[]" and "N/A" say nothing.
      if (Text(key.shapes).size() > 3) {
        put(group.shapes[std::string(Text(key.shapes))], tally.calls);
        put(group.types[std::string(Text(key.types))], tally.calls);
      }
    }
    tallies_ = {};
  }

  // Host work outside of operators.
  void AddNamed(const std::string& label, double ms) {
    const auto make = [&] {
      WorkGroup group;
      group.label = label;
      group.family = "host";
      return group;
    };
    Amount& amount = groups_.At(label, make).total[side_];
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
    tree_->FirstCaller(node, [&](uint32_t caller) {
      const HostTree::Node& known = (*tree_)[caller];
      if (known.kind == Kind::kPython && !Text(known.name).starts_with('<')) {
        frames.emplace_back(Text(known.name));
      }
      return frames.size() == kMostFrames;
    });
    std::reverse(frames.begin(), frames.end());
    return base::Join(frames, "\n");
  }

  size_t GroupAt(std::unordered_map<TextId, size_t>& known, TextId name, TextId kernel,
                 bool is_operator) {
    const auto [place, is_new] = known.try_emplace(name, 0);
    if (is_new) {
      const std::string label = is_operator ? OperatorLabel(name) : KernelLabel(name);
      place->second = groups_.PlaceOf(label, [&] {
        WorkGroup group;
        group.label = label;
        group.is_operator = is_operator;
        group.family = kernel == kNoText ? "host" : KernelFamily(Text(kernel));
        return group;
      });
    }
    return place->second;
  }

  LaunchContext LaunchContextOf(uint32_t node, bool by_graph) const {
    LaunchContext context;
    context.by_graph = by_graph;
    tree_->FirstCaller(node, [&](uint32_t caller) {
      const HostTree::Node& known = (*tree_)[caller];
      if (known.kind == Kind::kOperator) {
        context.outer = known.name;
      } else if (known.kind == Kind::kModule && context.module == kNoText) {
        context.module = known.name;
      } else if (known.kind == Kind::kAnnotation && context.annotation == kNoText) {
        context.annotation = known.name;
      }
      return false;
    });
    if (context.module == kNoText) {
      context.module = backward_->Of(node);
      context.is_backward = context.module != kNoText;
    }
    return context;
  }

  const std::string& ContextOf(uint32_t node, uint32_t leaf, bool by_graph) {
    LaunchContext context = LaunchContextOf(node, by_graph);
    // The name of the leaf itself is known.
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
    tree_->FirstCaller(node, [&](uint32_t caller) {
      const HostTree::Node& known = (*tree_)[caller];
      if (known.kind == Kind::kOperator || known.kind == Kind::kAnnotation) {
        group.callers.emplace_back(WithoutEngine(Text(known.name)));
      } else if (known.kind == Kind::kModule) {
        group.callers.emplace_back(ModuleClass(Text(known.name)));
      }
      return group.callers.size() == kMostCallers;
    });
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
    Tallied key;
    double ms = 0;
    int64_t calls = 0;
    int64_t kernels = 0;
  };

  const std::map<std::string, std::string>& names_;
  Ordered<std::string, WorkGroup> groups_;  // by label

  // The side that is added now.
  size_t side_ = 0;
  const Profile* profile_ = nullptr;
  const HostTree* tree_ = nullptr;
  std::unordered_map<TextId, size_t> by_operator_;
  std::unordered_map<TextId, size_t> by_kernel_;
  std::unordered_map<TextId, std::string> kernel_labels_;
  std::unordered_map<LaunchContext, std::string, LaunchContextHash> contexts_;
  Ordered<Tallied, Tally, TalliedHash> tallies_;
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
  grouper.Reserve(std::min(base_profile.texts.size(), base.nodes().size()) +
                  std::min(comparison_profile.texts.size(), comparison.nodes().size()));
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

namespace {

constexpr double kLeadingShare = 0.7;     // a context with this share of a change is named
constexpr double kExchangedShare = 0.2;   // of a group's time, from which on a part was exchanged
constexpr double kSmallestShare = 0.002;  // of all time, below which nothing is a replacement
constexpr size_t kLongestText = 90;

using AmountPart = std::pair<const std::string, Amounts>;

std::string Cut(const std::string& text) {
  return text.size() <= kLongestText ? text : text.substr(0, kLongestText - 3) + "...";
}

// The part with the most time on a side; null: none has any there.
const AmountPart* Largest(const std::map<std::string, Amounts>& parts, size_t side) {
  const AmountPart* largest = nullptr;
  for (const AmountPart& part : parts) {
    if (part.second[side].calls > 0 &&
        (largest == nullptr || part.second[side].ms > largest->second[side].ms)) {
      largest = &part;
    }
  }
  return largest;
}

// The share of a side's time in parts that the other side lacks.
double ShareOfOwn(const std::map<std::string, Amounts>& parts, size_t side) {
  double own = 0;
  double all = 0;
  for (const AmountPart& part : parts) {
    all += part.second[side].ms;
    own += part.second[1 - side].calls == 0 ? part.second[side].ms : 0;
  }
  return all > 0 ? own / all : 0;
}

// "A -> B" where both sides spend much of their time in parts that the other one lacks; the largest
// part of such on each side.
std::optional<std::string> Exchanged(const std::map<std::string, Amounts>& parts,
                                     std::string_view what) {
  if (ShareOfOwn(parts, 0) < kExchangedShare || ShareOfOwn(parts, 1) < kExchangedShare) {
    return std::nullopt;
  }
  const auto own = [&](size_t side) {
    const AmountPart* largest = nullptr;
    for (const AmountPart& part : parts) {
      if (part.second[1 - side].calls == 0 && part.second[side].calls > 0 &&
          (largest == nullptr || part.second[side].ms > largest->second[side].ms)) {
        largest = &part;
      }
    }
    return largest;
  };
  const AmountPart* before = own(0);
  const AmountPart* after = own(1);
  if (before == nullptr || after == nullptr) {
    return std::nullopt;
  }
  return fmt::format("{} {} -> {}", what, Cut(before->first), Cut(after->first));
}

void AppendNote(const std::optional<std::string>& text, std::string& note) {
  if (text.has_value()) {
    note += (note.empty() ? "" : "; ") + *text;
  }
}

// The part whose time changed most in a direction, 1 or -1; null: none did.
const AmountPart* MostChanged(const std::map<std::string, Amounts>& parts, double direction) {
  const AmountPart* most = nullptr;
  for (const AmountPart& part : parts) {
    const double change = Change(part.second) * direction;
    if (change > 0 && (most == nullptr || change > Change(most->second) * direction)) {
      most = &part;
    }
  }
  return most;
}

std::string_view FamilyOf(const WorkGroup& group, const AmountPart& kernel) {
  const auto known = group.families.find(kernel.first);
  return known == group.families.end() ? group.family : known->second;
}

// Why the time changed, as far as recorded.
std::string NoteOf(const WorkGroup& group) {
  std::string note;
  const auto& [base, comparison] = group.total;
  if (group.is_added() || group.is_removed()) {
    note = group.is_added() ? "only in the test" : "only in the reference";
    const AmountPart* kernel = Largest(group.kernels, group.is_added() ? 1 : 0);
    if (kernel != nullptr && group.is_operator) {
      AppendNote(fmt::format("{} kernel {}", FamilyOf(group, *kernel), kernel->first), note);
    }
    return note;
  }
  if (base.calls != comparison.calls) {
    const double per_call = base.ms > 0 ? (comparison.ms / static_cast<double>(comparison.calls)) /
                                              (base.ms / static_cast<double>(base.calls))
                                        : 1;
    AppendNote(fmt::format("{} calls", comparison.calls > base.calls ? "more" : "fewer") +
                   (std::fabs(per_call - 1) < 0.1 ? ", each as long as before" : ""),
               note);
  }
  AppendNote(Exchanged(group.types, "types"), note);
  AppendNote(Exchanged(group.shapes, "shapes"), note);
  const std::optional<std::string> kernels = Exchanged(group.kernels, "other kernels:");
  AppendNote(kernels, note);
  const AmountPart* kernel = MostChanged(group.kernels, comparison.ms >= base.ms ? 1 : -1);
  if (kernel == nullptr) {
    kernel = Largest(group.kernels, comparison.ms >= base.ms ? 1 : 0);
  }
  if (kernel == nullptr) {
    return note;
  }
  const std::string_view family = FamilyOf(group, *kernel);
  if (!kernels.has_value() && group.is_operator) {
    const double change = Change(kernel->second);
    AppendNote(std::fabs(change) >= kLeadingShare * std::fabs(Change(group.total)) &&
                       kernel->second[0].calls > 0
                   ? fmt::format("{} kernel {} ({:.3f} -> {:.3f} ms)", family, kernel->first,
                                 kernel->second[0].ms, kernel->second[1].ms)
                   : fmt::format("{} kernel {}", family, kernel->first),
               note);
  } else if (!group.is_operator) {
    AppendNote(fmt::format("{} kernel", family), note);
  } else {
    AppendNote(fmt::format("family {}", family), note);
  }
  return note;
}

// The one context in which most of a change happened, or nothing.
std::string WhereOf(const WorkGroup& group) {
  const double change = Change(group.total);
  const AmountPart* largest = nullptr;
  for (const AmountPart& part : group.contexts) {
    if (Change(part.second) * change > 0 &&
        (largest == nullptr ||
         std::fabs(Change(part.second)) > std::fabs(Change(largest->second)))) {
      largest = &part;
    }
  }
  const bool most =
      largest != nullptr && std::fabs(Change(largest->second)) >= kLeadingShare * std::fabs(change);
  return group.label + (most ? largest->first : "");
}

Finding GroupFinding(const WorkGroup& group, std::string_view metric) {
  Finding finding = MakeFinding(WhereOf(group), metric, group.total);
  finding.note = NoteOf(group);
  finding.call_stack = group.call_stack;
  return finding;
}

void AddTo(Amounts& sum, const Amounts& more) {
  for (size_t side = 0; side < sum.size(); ++side) {
    sum[side].ms += more[side].ms;
    sum[side].calls += more[side].calls;
  }
}

Amounts TotalOf(const std::vector<const WorkGroup*>& groups) {
  Amounts total;
  for (const WorkGroup* group : groups) {
    AddTo(total, group->total);
  }
  return total;
}

// ---- Replacements ----

bool IsAttention(const WorkGroup& group) {
  const std::string lower = base::AsciiLower(group.label);
  return group.family == "attention" || lower.find("attention") != std::string::npos;
}

// The parts of an attention that is not a single kernel.
bool IsPartOfAttention(const WorkGroup& group) {
  const std::string lower = base::AsciiLower(group.label);
  for (const std::string_view word : {"softmax", "bmm", "baddbmm", "dropout", "masked_fill"}) {
    if (lower.find(word) != std::string::npos) {
      return true;
    }
  }
  return IsAttention(group);
}

// The nearest operator or optimizer step that both were called by; empty: none. What a whole pass
// or model holds proves nothing.
std::string CommonCaller(const WorkGroup& a, const WorkGroup& b) {
  for (const std::string& caller : a.callers) {
    if (caller.starts_with("##") || caller.starts_with("nn.Module") ||
        caller.starts_with("DistributedDataParallel") ||
        caller.starts_with("FullyShardedDataParallel")) {
      continue;
    }
    if (std::find(b.callers.begin(), b.callers.end(), caller) != b.callers.end()) {
      return caller;
    }
  }
  return {};
}

bool ReplacesIt(const WorkGroup& removed, const WorkGroup& added) {
  if (IsAttention(removed) || IsAttention(added)) {
    // Forward by forward and backward by backward.
    return IsPartOfAttention(removed) && IsPartOfAttention(added) &&
           (IsBackwardName(removed.label) == IsBackwardName(added.label) || !IsAttention(removed) ||
            !IsAttention(added));
  }
  if (!removed.is_operator && !added.is_operator) {
    // Kernels have other names on another device: those of a family do the same work.
    return removed.family == added.family && removed.family != "other";
  }
  return !CommonCaller(removed, added).empty() ||
         (removed.family == added.family && removed.family != "other" &&
          removed.is_operator == added.is_operator &&
          removed.total[0].calls == added.total[1].calls);
}

// "a, b and 2 more", the largest first.
std::string NamesOf(std::vector<const WorkGroup*> groups, size_t side) {
  std::stable_sort(groups.begin(), groups.end(), [side](const WorkGroup* a, const WorkGroup* b) {
    return a->total[side].ms > b->total[side].ms;
  });
  constexpr size_t kNamed = 2;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kNamed, groups.size()); ++i) {
    names.push_back(groups[i]->label);
  }
  std::string text = base::Join(names, ", ");
  return groups.size() > kNamed ? text + fmt::format(" and {} more", groups.size() - kNamed) : text;
}

Finding ReplacementOf(const std::vector<const WorkGroup*>& removed,
                      const std::vector<const WorkGroup*>& added, std::string_view metric) {
  std::vector<const WorkGroup*> all = removed;
  all.insert(all.end(), added.begin(), added.end());
  const WorkGroup& first = *removed.front();
  const std::string caller =
      first.is_operator ? CommonCaller(first, *added.front()) : std::string();
  const std::string where = fmt::format(
      "{}{} -> {}{}", first.is_operator ? "" : fmt::format("{} kernels: ", first.family),
      NamesOf(removed, 0), NamesOf(added, 1), caller.empty() ? "" : " in " + caller);
  Finding finding = MakeFinding(where, metric, TotalOf(all));
  for (const WorkGroup* group : all) {
    if (finding.call_stack.empty()) {
      finding.call_stack = group->call_stack;
    }
  }
  finding.note = "replaced (net change)";
  return finding;
}

// Takes replaced operators and their replacements out of `groups`.
std::vector<Finding> TakeReplacements(std::vector<WorkGroup>& groups, std::string_view metric) {
  double all = 0;
  for (const WorkGroup& group : groups) {
    all += std::max(group.total[0].ms, group.total[1].ms);
  }
  std::vector<const WorkGroup*> removed;
  std::vector<const WorkGroup*> added;
  for (const WorkGroup& group : groups) {
    if (std::max(group.total[0].ms, group.total[1].ms) >= all * kSmallestShare) {
      if (group.is_removed()) {
        removed.push_back(&group);
      } else if (group.is_added()) {
        added.push_back(&group);
      }
    }
  }
  constexpr size_t kMostCompared = 400;  // by pairs
  removed.resize(std::min(removed.size(), kMostCompared));
  added.resize(std::min(added.size(), kMostCompared));
  std::vector<Finding> findings;
  std::unordered_set<const WorkGroup*> taken;
  const auto take = [&](const std::vector<const WorkGroup*>& gone,
                        const std::vector<const WorkGroup*>& come) {
    findings.push_back(ReplacementOf(gone, come, metric));
    taken.insert(gone.begin(), gone.end());
    taken.insert(come.begin(), come.end());
  };
  const auto left_of = [&](const std::vector<const WorkGroup*>& candidates) {
    std::vector<const WorkGroup*> left;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(left),
                 [&](const WorkGroup* group) { return taken.count(group) == 0; });
    return left;
  };
  // Everything that is linked to a removed operator by replacing it, or by replacing its like.
  for (const WorkGroup* first : removed) {
    if (taken.count(first) != 0) {
      continue;
    }
    std::vector<const WorkGroup*> gone = {first};
    std::vector<const WorkGroup*> come;
    for (bool grew = true; grew;) {
      grew = false;
      // `replaces(candidate, other)`: for some of those that are there on the other side.
      const auto join = [&](const std::vector<const WorkGroup*>& candidates, auto& mine,
                            const auto& others, const auto& replaces) {
        for (const WorkGroup* candidate : left_of(candidates)) {
          if (std::find(mine.begin(), mine.end(), candidate) == mine.end() &&
              std::any_of(others.begin(), others.end(),
                          [&](const WorkGroup* other) { return replaces(*candidate, *other); })) {
            mine.push_back(candidate);
            grew = true;
          }
        }
      };
      join(added, come, gone,
           [](const WorkGroup& group, const WorkGroup& other) { return ReplacesIt(other, group); });
      join(removed, gone, come, ReplacesIt);
    }
    if (!come.empty()) {
      take(gone, come);
    }
  }
  // Similar amounts that are left on both sides did the same work in another way, too.
  constexpr double kComparable = 0.3;
  const std::vector<const WorkGroup*> gone = left_of(removed);
  const std::vector<const WorkGroup*> come = left_of(added);
  const double gone_ms = TotalOf(gone)[0].ms;
  const double come_ms = TotalOf(come)[1].ms;
  if (!gone.empty() && !come.empty() &&
      std::min(gone_ms, come_ms) >= kComparable * std::max(gone_ms, come_ms)) {
    take(gone, come);
  }
  std::vector<bool> is_taken(groups.size());
  for (const WorkGroup* group : taken) {
    is_taken[static_cast<size_t>(group - groups.data())] = true;
  }
  size_t kept = 0;  // in place: there may be as many groups as a trace has names
  for (size_t i = 0; i < groups.size() && !taken.empty(); ++i) {
    if (!is_taken[i] && kept++ != i) {
      groups[kept - 1] = std::move(groups[i]);
    }
  }
  groups.resize(taken.empty() ? groups.size() : kept);
  return findings;
}

// ---- A change that all share ----

// All that takes time takes longer (or less long) by about the same factor, with the same calls.
std::optional<Finding> SharedChange(const std::vector<WorkGroup>& groups, std::string_view metric) {
  Amounts total;
  for (const WorkGroup& group : groups) {
    AddTo(total, group.total);
  }
  Finding all = MakeFinding("all operators alike", metric, total);
  if (all.base <= 0 || all.comparison <= 0) {
    return std::nullopt;
  }
  const double growth = all.comparison / all.base;
  constexpr double kWorthIt = 0.03;
  if (std::fabs(growth - 1) < kWorthIt) {
    return std::nullopt;
  }
  double alike = 0;
  size_t families = 0;
  double largest = 0;
  for (const WorkGroup& group : groups) {
    const auto& [base, comparison] = group.total;
    if (base.ms <= 0 || base.calls != comparison.calls) {
      continue;
    }
    if (std::fabs(comparison.ms / base.ms - growth) <= 0.35 * std::fabs(growth - 1)) {
      alike += base.ms;
      families += base.ms >= all.base / 100 ? 1 : 0;
      largest = std::max(largest, base.ms);
    }
  }
  constexpr double kNearlyAll = 0.85;
  if (alike < kNearlyAll * all.base || families < 4 || largest > 0.8 * all.base) {
    return std::nullopt;
  }
  all.note = fmt::format(
      "each takes about {:+.0f} % with the same calls: look at clocks, power limits and what else "
      "runs there",
      (growth - 1) * 100);
  return all;
}

}  // namespace

Finding MakeFinding(std::string where, std::string_view metric, const Amounts& amounts) {
  Finding finding;
  finding.where = std::move(where);
  finding.metric = metric;
  finding.base = amounts[0].ms;
  finding.comparison = amounts[1].ms;
  finding.base_calls = amounts[0].calls;
  finding.comparison_calls = amounts[1].calls;
  return finding;
}

std::vector<Finding> FindingsOfGroups(std::vector<WorkGroup> groups, std::string_view metric) {
  std::vector<Finding> findings;
  const std::optional<Finding> shared = SharedChange(groups, metric);
  if (shared.has_value()) {
    findings.push_back(*shared);
  }
  for (Finding& replacement : TakeReplacements(groups, metric)) {
    findings.push_back(std::move(replacement));
  }
  findings.reserve(findings.size() + groups.size());
  for (const WorkGroup& group : groups) {
    findings.push_back(GroupFinding(group, metric));
  }
  return findings;
}

}  // namespace msprobe::analysis::perf
