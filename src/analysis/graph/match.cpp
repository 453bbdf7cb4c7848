#include "src/analysis/graph/match.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/graph/items.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

using compare::SideRow;

class Matcher {
 public:
  Matcher(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
          Graph& npu, Graph& bench)
      : npu_dump_(npu_dump), bench_dump_(bench_dump), options_(options), npu_(npu), bench_(bench) {}

  void Run() {
    const std::vector<uint32_t> order = npu_.LevelOrder();
    if (options_.mapping != nullptr) {
      MatchMapped(order);
    } else if (options_.fuzzy) {
      MatchFuzzily(order);
    } else {
      MatchByName(order);
    }
    TakeMicroSteps();
  }

 private:
  void Pair(uint32_t npu, uint32_t bench) {
    npu_.nodes[npu].match = bench;
    bench_.nodes[bench].match = npu;
  }

  void MatchMapped(const std::vector<uint32_t>& order) {
    for (const uint32_t node : order) {
      const std::string_view name = npu_.nodes[node].name;
      const auto mapped = options_.mapping->find(name);
      const uint32_t bench = bench_.Find(mapped == options_.mapping->end() ? name : mapped->second);
      if (bench != kNone && bench_.nodes[bench].match == kNone) {
        Pair(node, bench);
      }
    }
  }

  void MatchByName(const std::vector<uint32_t>& order) {
    std::vector<uint32_t> same_path(npu_.nodes.size(), kNone);
    for (const uint32_t index : order) {
      const Node& node = npu_.nodes[index];
      const uint32_t bench = bench_.Find(node.name);
      if (bench == kNone) {
        continue;
      }
      const uint32_t above = bench_.nodes[bench].parent;
      const bool path_agrees =
          node.parent == kNone ? above == kNone : above != kNone && same_path[node.parent] == above;
      if (!path_agrees) {
        continue;
      }
      same_path[index] = bench;
      if (options_.edition == Edition::k26 ||
          SameShapes(index, bench, /*as_far_as_both_go=*/false)) {
        Pair(index, bench);
      }
    }
  }

  void MatchFuzzily(const std::vector<uint32_t>& order) {
    for (const uint32_t index : order) {
      if (npu_.nodes[index].type == NodeType::kApi) {
        continue;
      }
      const uint32_t bench = bench_.Find(npu_.nodes[index].name);
      if (bench == kNone || bench_.nodes[bench].type == NodeType::kApi ||
          !FuzzilySameShapes(index, bench)) {
        continue;
      }
      Pair(index, bench);
      MatchCalls(index, bench);
    }
  }

  bool FuzzilySameShapes(uint32_t npu, uint32_t bench) const {
    return options_.edition == Edition::k26 || SameShapes(npu, bench, /*as_far_as_both_go=*/true);
  }

  using Numbered = std::pair<std::string, size_t>;
  struct NumberedHash {
    size_t operator()(const Numbered& key) const {
      return std::hash<std::string>()(key.first) * 31 + key.second;
    }
  };

  // "Functional.linear.3.forward" -> "Functional.linear.forward"; "_rank1" of merged calls is left
  // out as well.
  std::string WithoutNumber(std::string_view name) const {
    std::string text;
    for (const std::string_view field : base::Split(name, '.')) {
      const bool is_number =
          !field.empty() && std::all_of(field.begin(), field.end(), base::IsDigit);
      if (is_number && !text.empty() && field.data() + field.size() != name.data() + name.size()) {
        continue;
      }
      text += text.empty() ? "" : ".";
      const size_t rank = options_.edition == Edition::k26 ? field.rfind("_rank") : field.npos;
      const bool has_rank = rank != field.npos && rank + 5 < field.size() &&
                            std::all_of(field.begin() + rank + 5, field.end(), base::IsDigit);
      text += has_rank ? field.substr(0, rank) : field;
    }
    return text;
  }

  template <typename Visit>
  void ForEachCall(const Graph& graph, uint32_t above, const Visit& visit) const {
    std::unordered_map<std::string, size_t> seen;
    for (const uint32_t child : graph.nodes[above].children) {
      if (graph.nodes[child].type == NodeType::kApi) {
        std::string name = WithoutNumber(graph.nodes[child].name);
        const size_t number = ++seen[name];
        visit(Numbered(std::move(name), number), child);
      }
    }
  }

  void MatchCalls(uint32_t npu_above, uint32_t bench_above) {
    std::unordered_map<Numbered, uint32_t, NumberedHash> bench_calls;
    ForEachCall(bench_, bench_above,
                [&](Numbered key, uint32_t child) { bench_calls.emplace(std::move(key), child); });
    ForEachCall(npu_, npu_above, [&](const Numbered& key, uint32_t child) {
      const auto found = bench_calls.find(key);
      if (found != bench_calls.end() && FuzzilySameShapes(child, found->second)) {
        Pair(child, found->second);
      }
    });
  }

  static std::vector<const SideRow*> RowsOf(const RankDump& dump, uint32_t entry, bool outputs) {
    std::vector<const SideRow*> rows;
    if (entry != kNone) {
      const compare::SideEntry& range = dump.side().entries[entry];
      for (uint32_t i = range.first_row; i < range.first_row + range.row_count; ++i) {
        if (dump.IsOutput(i) == outputs) {
          rows.push_back(&dump.side().rows[i]);
        }
      }
    }
    return rows;
  }

  bool SameShapes(uint32_t npu, uint32_t bench, bool as_far_as_both_go) const {
    if (options_.ignore_shapes) {
      return true;
    }
    for (const bool outputs : {false, true}) {
      const auto n = RowsOf(npu_dump_, npu_.nodes[npu].entry, outputs);
      const auto b = RowsOf(bench_dump_, bench_.nodes[bench].entry, outputs);
      if (n.size() != b.size() && !as_far_as_both_go) {
        return false;
      }
      for (size_t i = 0; i < std::min(n.size(), b.size()); ++i) {
        if (n[i]->type != b[i]->type || n[i]->shape != b[i]->shape) {
          return false;
        }
      }
    }
    return true;
  }

  void TakeMicroSteps() {
    for (const uint32_t index : bench_.LevelOrder()) {
      Node& node = bench_.nodes[index];
      if (index == kRoot || (options_.edition == Edition::k8 && node.parent != kRoot)) {
        continue;
      }
      if (node.match != kNone) {
        node.micro_step = npu_.nodes[node.match].micro_step;
      } else if (node.parent == kRoot) {
        const std::string_view last = node.name.substr(node.name.rfind('.') + 1);
        int64_t number = 0;
        std::from_chars(last.data(), last.data() + last.size(), number);
        node.micro_step = number;
      } else {
        node.micro_step = bench_.nodes[node.parent].micro_step;
      }
    }
  }

  const RankDump& npu_dump_;
  const RankDump& bench_dump_;
  const MatchOptions& options_;
  Graph& npu_;
  Graph& bench_;
};

}  // namespace

void MatchNodes(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
                Graph& npu, Graph& bench) {
  Matcher(npu_dump, bench_dump, options, npu, bench).Run();
}

}  // namespace msprobe::analysis::graph
