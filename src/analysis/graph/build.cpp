// From construct.json to the tree of a rank: parents first, then the corrections of the Python
// tool's editions (recomputed modules below the backward pass that asked for them, collections of
// calls between modules), then micro steps. Cycles and trees deeper than the limit are cut.
#include "src/analysis/graph/build.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/analysis/graph/merge.h"
#include "src/base/log.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

constexpr std::string_view kGradients = ".parameters_grad";
constexpr size_t kShortestCollection = 2;
// A node is written with all that it stands in: deeper than any model, and no file is made that
// grows with the square of a hostile depth.
constexpr uint32_t kMostLevels = 1000;
// stack.json holds a stack once for all calls that share it, a graph once per node. What the stacks
// of all nodes may take: some KiB per node, as real ones do, for dumps of any size.
constexpr uint64_t kTimesDumpOfStacks = 16;
constexpr uint64_t kFreeStackBytes = uint64_t{256} << 20U;

const std::vector<std::string>& StackBeyondLimit() {
  static const std::vector<std::string> kLines = {
      "This graph has no room for more call stacks: see stack.json."};
  return kLines;
}

const std::vector<std::string>& NoForwardStack() {
  static const std::vector<std::string> kLines = {
      "This backward node cannot find the forward node and cannot retrieve stack information."};
  return kLines;
}

std::string Joined(std::string_view before, std::string_view direction, std::string_view number) {
  return fmt::format("{}.{}.{}", before, direction, number);
}

// The name without its last `count` fields; empty when it has no more than them.
std::string_view WithoutFields(std::string_view name, size_t count) {
  for (; count > 0; --count) {
    const size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) {
      return {};
    }
    name = name.substr(0, dot);
  }
  return name;
}

bool IsNumber(std::string_view field) {
  return !field.empty() && std::all_of(field.begin(), field.end(), base::IsDigit);
}

class GraphBuilder {
 public:
  GraphBuilder(const RankDump& dump, const BuildOptions& options,
               std::vector<std::string>& warnings)
      : dump_(dump),
        construct_(dump.construct()),
        options_(options),
        is_26_(options.edition == Edition::kV26),
        warnings_(warnings) {}

  Graph Build() {
    graph_.Reserve(construct_.members().size() + 1);
    for (const dump::ConstructFile::Member& member : construct_.members()) {
      const std::string parent = ParentOf(member);
      // A merged dump names the root; a node below itself has no parent.
      const bool has_parent = !parent.empty() && parent != member.name && parent != kRootName;
      const uint32_t above = has_parent ? NodeOf(parent) : kRoot;
      const uint32_t node = NodeOf(member.name);
      if (node != kRoot && graph_.nodes[node].parent == kNone) {
        graph_.Attach(node, above);
      }
    }
    AttachLost();
    if (is_26_) {
      MoveRecomputed();
    }
    LimitDepth();
    if (options_.collect) {
      Collect();
    }
    AddGradients();
    CountMicroSteps();
    LimitStacks();
    return std::move(graph_);
  }

 private:
  // The parent that construct.json names, or the one that it lacks.
  std::string ParentOf(const dump::ConstructFile::Member& member) const {
    const std::string_view name = member.name;
    const std::optional<NumberedDirection> backward = ParseBackward(name);
    if (!member.parent.empty()) {
      return is_26_ && backward ? InPlaceParent(member, *backward) : std::string(member.parent);
    }
    if (backward) {
      const std::string_view parent =
          construct_.ParentOf(Joined(backward->before, "forward", backward->number));
      return KnownBackward(parent).value_or("");
    }
    if (name.ends_with(".backward")) {
      const std::string forward = base::ReplaceAll(name, "backward", "forward");
      const std::string parent =
          base::ReplaceAll(construct_.ParentOf(forward), "forward", "backward");
      return construct_.Find(parent) != nullptr ? parent : "";
    }
    return "";
  }

  std::optional<std::string> KnownBackward(std::string_view forward_name) const {
    const std::optional<NumberedDirection> forward = ParseForward(forward_name);
    if (!forward) {
      return std::nullopt;
    }
    std::string name = Joined(forward->before, "backward", forward->number);
    return construct_.Find(name) != nullptr ? std::optional(std::move(name)) : std::nullopt;
  }

  // Layers that work in place name the wrong parent: a module's parent has the beginning of its
  // name. Otherwise the forward call knows.
  std::string InPlaceParent(const dump::ConstructFile::Member& member,
                            const NumberedDirection& backward) const {
    const std::string_view prefix = WithoutFields(member.name, 4);
    const std::string_view parent_prefix = WithoutFields(member.parent, 3);
    if (prefix.empty() || parent_prefix.empty() || prefix == parent_prefix) {
      return std::string(member.parent);
    }
    const dump::ConstructFile::Member* forward =
        construct_.Find(Joined(backward.before, "forward", backward.number));
    if (forward == nullptr) {
      return std::string(member.parent);
    }
    return KnownBackward(forward->parent).value_or(std::string(forward->parent));
  }

  uint32_t NodeOf(std::string_view name) {
    const uint32_t known = graph_.Find(name);
    return known != kNone ? known : MakeNode(name, TypeOfName(name, options_.edition));
  }

  uint32_t MakeNode(std::string_view name, NodeType type) {
    const uint32_t index = graph_.Add(name, type);
    graph_.nodes[index].stack = StackOf(name);
    graph_.nodes[index].entry = dump_.FindEntry(name);
    return index;
  }

  StackLines StackOf(std::string_view name) const {
    const std::vector<std::string>* lines = dump_.stacks().Find(name);
    if (lines != nullptr && !lines->empty()) {
      return options_.complete_stacks ? StackLines(*lines) : ShortStack(name, *lines);
    }
    if (name.find("backward") == std::string_view::npos) {
      return {};
    }
    std::string forward;
    if (const std::optional<NumberedDirection> backward = ParseBackward(name);
        backward && IsModuleName(name)) {
      forward = Joined(backward->before, "forward", "0");
    } else {
      forward = base::ReplaceAll(name, "backward", "forward");
    }
    const uint32_t twin = graph_.Find(forward);
    return twin != kNone ? graph_.nodes[twin].stack : StackLines(NoForwardStack());
  }

  // Parents that construct.json names but does not list belong to the root, and so does what hangs
  // on nothing but itself.
  void AttachLost() {
    const auto count = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t node = 1; node < count; ++node) {
      if (graph_.nodes[node].parent == kNone) {
        graph_.Attach(node, kRoot);
      }
    }
    std::vector<bool> reached(count);
    const auto reach = [this, &reached](uint32_t from) {
      std::vector<uint32_t> open = {from};
      reached[from] = true;
      while (!open.empty()) {
        const uint32_t node = open.back();
        open.pop_back();
        for (const uint32_t child : graph_.nodes[node].children) {
          if (!reached[child]) {
            reached[child] = true;
            open.push_back(child);
          }
        }
      }
    };
    reach(kRoot);
    base::LimitedWarnings circles(warnings_);
    bool any = false;
    for (uint32_t node = 1; node < count; ++node) {
      if (!reached[node]) {
        graph_.Attach(node, kRoot);
        reach(node);
        any = true;
        circles.Add(fmt::format("{}: the parents of {} form a circle; it stands at the top",
                                dump_.folder().string(), graph_.nodes[node].name));
      }
    }
    if (circles.more() > 0) {
      warnings_.push_back(fmt::format("{}: {} more of which the parents form a circle",
                                      dump_.folder().string(),
                                      base::Plural(circles.more(), "node")));
    }
    if (any) {
      // All at once, out of the children of those that they stood below.
      for (uint32_t parent = 0; parent < count; ++parent) {
        std::erase_if(graph_.nodes[parent].children, [this, parent](uint32_t child) {
          return graph_.nodes[child].parent != parent;
        });
      }
    }
  }

  // What stands deeper than the limit begins a new tree at the top.
  void LimitDepth() {
    std::vector<uint32_t> depth(graph_.nodes.size(), 0);
    std::vector<uint32_t> order = {kRoot};
    order.reserve(graph_.nodes.size());
    std::vector<uint32_t> too_deep;
    for (size_t at = 0; at < order.size(); ++at) {
      const uint32_t node = order[at];
      const bool at_limit = depth[node] == kMostLevels;
      for (const uint32_t child : graph_.nodes[node].children) {
        depth[child] = at_limit ? 1 : depth[node] + 1;
        order.push_back(child);
      }
      if (at_limit) {
        std::vector<uint32_t> children;
        children.swap(graph_.nodes[node].children);
        too_deep.insert(too_deep.end(), children.begin(), children.end());
      }
    }
    for (const uint32_t node : too_deep) {
      graph_.Attach(node, kRoot);
    }
    if (!too_deep.empty()) {
      warnings_.push_back(
          fmt::format("{}: {} more than {} modules deep; they stand at the top, the first is {}",
                      dump_.folder().string(), base::Plural(too_deep.size(), "node"),
                      base::FormatCount(kMostLevels), graph_.nodes[too_deep.front()].name));
    }
  }

  // From the first node on for whose stack there is no room, none has any.
  void LimitStacks() {
    uint64_t left = kTimesDumpOfStacks * dump_.side().header.size_bytes + kFreeStackBytes;
    size_t without = 0;
    for (Node& node : graph_.nodes) {
      uint64_t bytes = 0;
      for (const std::string& line : node.stack) {
        bytes += line.size();
      }
      if (without > 0 || bytes > left) {
        without += node.stack.empty() ? 0U : 1U;
        node.stack = node.stack.empty() ? node.stack : StackLines(StackBeyondLimit());
      } else {
        left -= bytes;
      }
    }
    if (without > 0) {
      warnings_.push_back(fmt::format(
          "{}: {} have no call stack in the graph, since those of the others are more than {} "
          "times the dump: see stack.json",
          dump_.folder().string(), base::Plural(without, "node"), kTimesDumpOfStacks));
    }
  }

  // Module names that look like a module inside of another one.
  static bool LooksNested(std::string_view name) {
    const std::vector<std::string_view> fields = base::Split(name, '.');
    switch (fields.size()) {
      case 6:
        return !IsNumber(fields[1]);
      case 7:
        return !(IsNumber(fields[1]) && IsNumber(fields[3]));
      default:
        return fields.size() > 7;
    }
  }

  bool IsRecomputed(uint32_t index) const {
    const Node& node = graph_.nodes[index];
    if (node.type != NodeType::kModule || !LooksNested(node.name)) {
      return false;
    }
    const std::optional<NumberedDirection> forward = ParseForward(node.name);
    const std::optional<NumberedDirection> backward = ParseBackward(node.name);
    if (!forward && !backward) {
      return false;
    }
    const NumberedDirection& parts = forward ? *forward : *backward;
    const uint32_t twin =
        graph_.Find(Joined(parts.before, forward ? "backward" : "forward", parts.number));
    if (twin == kNone || graph_.nodes[twin].parent != kRoot) {
      return false;
    }
    const uint32_t recorded = forward ? index : twin;
    return dump_.side().framework == compare::Framework::kMindSpore ||
           ShowsRecomputation(graph_.nodes[recorded].stack);
  }

  // Modules of the second computation stand at the top, because the module around them is not
  // computed again. They belong below the backward of the module that the first computation stood
  // in.
  void MoveRecomputed() {
    std::vector<uint32_t> recomputed;
    for (const uint32_t child : graph_.nodes[kRoot].children) {
      if (IsRecomputed(child)) {
        recomputed.push_back(child);
      }
    }
    if (recomputed.empty()) {
      return;
    }
    const std::unordered_set<uint32_t> is_recomputed(recomputed.begin(), recomputed.end());
    std::unordered_map<std::string_view, std::vector<uint32_t>> first_computations;
    for (uint32_t node = 1; node < graph_.nodes.size(); ++node) {
      if (const auto forward = ParseForward(graph_.nodes[node].name);
          forward && !is_recomputed.contains(node)) {
        first_computations[forward->before].push_back(node);
      }
    }
    struct Used {
      size_t forward = 0;
      size_t backward = 0;
    };
    std::unordered_map<std::string_view, Used> used;
    // Per node one that stands above it, the parent at first: shorter ways for whoever asks again.
    std::vector<uint32_t> above(graph_.nodes.size());
    std::transform(graph_.nodes.begin(), graph_.nodes.end(), above.begin(),
                   [](const Node& node) { return node.parent; });
    const auto top = [&above](uint32_t node) {
      while (above[node] != kRoot && above[node] != kNone) {
        if (above[above[node]] != kRoot && above[above[node]] != kNone) {
          above[node] = above[above[node]];
        }
        node = above[node];
      }
      return node;
    };
    for (const uint32_t node : recomputed) {
      const std::optional<NumberedDirection> forward = ParseForward(graph_.nodes[node].name);
      const std::string_view before =
          forward ? forward->before : ParseBackward(graph_.nodes[node].name)->before;
      Used& places = used[before];
      size_t& place = forward ? places.forward : places.backward;
      const auto found = first_computations.find(before);
      if (found == first_computations.end() || place >= found->second.size()) {
        continue;
      }
      const uint32_t module = graph_.nodes[found->second[place++]].parent;
      const std::optional<NumberedDirection> parent =
          module == kNone ? std::nullopt : ParseForward(graph_.nodes[module].name);
      const uint32_t target =
          parent ? graph_.Find(Joined(parent->before, "backward", parent->number)) : kNone;
      if (target != kNone && top(target) != node) {
        graph_.Attach(node, target);
        above[node] = target;
      }
    }
    // All at once: there may be very many of them.
    std::erase_if(graph_.nodes[kRoot].children,
                  [this](uint32_t child) { return graph_.nodes[child].parent != kRoot; });
  }

  void Collect() {
    const std::vector<uint32_t> children = graph_.nodes[kRoot].children;
    std::vector<uint32_t> kept;
    size_t collections = 0;
    for (size_t i = 0; i < children.size();) {
      size_t end = i;
      while (end < children.size() && graph_.nodes[children[end]].type == NodeType::kApi) {
        ++end;
      }
      if (end - i < kShortestCollection) {
        end = std::max(end, i + 1);
        kept.insert(kept.end(), children.begin() + i, children.begin() + end);
      } else {
        // A call may have that name: the next number that is free.
        std::string name;
        do {
          name = fmt::format("{}.{}", kCollectionName, collections++);
        } while (graph_.Find(name) != kNone);
        const uint32_t collection = graph_.Add(name, NodeType::kCollection);
        graph_.nodes[collection].parent = kRoot;
        for (size_t at = i; at < end; ++at) {
          graph_.Attach(children[at], collection);
        }
        kept.push_back(collection);
      }
      i = end;
    }
    graph_.nodes[kRoot].children = std::move(kept);
  }

  // "<module>.parameters_grad", with a number in 26.x.
  std::optional<std::string_view> GradientsOf(std::string_view entry) const {
    if (entry.ends_with(kGradients)) {
      return entry.substr(0, entry.size() - kGradients.size());
    }
    const size_t dot = entry.rfind('.');
    if (is_26_ && dot != std::string_view::npos && IsNumber(entry.substr(dot + 1)) &&
        entry.substr(0, dot).ends_with(kGradients)) {
      return entry.substr(0, dot - kGradients.size());
    }
    return std::nullopt;
  }

  // Below the last backward of their module. Those without one are not part of the tree.
  void AddGradients() {
    std::unordered_map<std::string_view, uint64_t> last_backward;
    for (const Node& node : graph_.nodes) {
      if (const auto backward = ParseBackward(node.name)) {
        uint64_t number = 0;
        std::from_chars(backward->number.data(), backward->number.data() + backward->number.size(),
                        number);
        uint64_t& last = last_backward[backward->before];
        last = std::max(last, number);
      }
    }
    for (const compare::SideEntry& entry : dump_.side().entries) {
      const std::optional<std::string_view> module = GradientsOf(entry.name);
      if (!module || graph_.Find(entry.name) != kNone) {
        continue;
      }
      const auto last = last_backward.find(*module);
      const uint32_t above = graph_.Find(
          fmt::format("{}.backward.{}", *module, last == last_backward.end() ? 0 : last->second));
      if (above != kNone) {
        const uint32_t node = graph_.Add(entry.name, NodeType::kModule);
        graph_.nodes[node].entry = dump_.FindEntry(entry.name);
        graph_.Attach(node, above);
      }
    }
  }

  void CountMicroSteps() {
    if (is_26_ && construct_.last_micro_step()) {
      TakeMicroSteps();
      return;
    }
    int64_t counter = 0;
    bool after_backward = false;
    for (const uint32_t child : graph_.nodes[kRoot].children) {
      Node& node = graph_.nodes[child];
      if (node.type == NodeType::kModule) {
        if (node.name.find(".forward.") == std::string_view::npos) {
          after_backward = true;
        } else if (after_backward) {
          ++counter;
          after_backward = false;
        }
      }
      node.micro_step = counter;
    }
    graph_.micro_step_count = counter + 1;
    if (is_26_) {
      Inherit();
    }
  }

  // As construct.json counts them.
  void TakeMicroSteps() {
    for (Node& node : graph_.nodes) {
      if (const dump::ConstructFile::Member* member = construct_.Find(node.name)) {
        node.micro_step = member->micro_step;
      }
    }
    for (const uint32_t child : graph_.nodes[kRoot].children) {
      Node& node = graph_.nodes[child];
      if (!node.micro_step && !node.children.empty()) {
        node.micro_step = graph_.nodes[node.children.front()].micro_step;
      }
    }
    graph_.micro_step_count = *construct_.last_micro_step() + 1;
    Inherit();
  }

  void Inherit() {
    for (const uint32_t index : graph_.LevelOrder()) {
      Node& node = graph_.nodes[index];
      if (!node.micro_step && index != kRoot) {
        node.micro_step = graph_.nodes[node.parent].micro_step;
      }
    }
  }

  const RankDump& dump_;
  const dump::ConstructFile& construct_;
  const BuildOptions& options_;
  const bool is_26_;
  std::vector<std::string>& warnings_;
  Graph graph_;
};

}  // namespace

Graph BuildGraph(const RankDump& dump, const BuildOptions& options,
                 std::vector<std::string>& warnings) {
  return GraphBuilder(dump, options, warnings).Build();
}

}  // namespace msprobe::analysis::graph
