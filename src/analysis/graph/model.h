// A model as a tree of modules and calls, in the order in which they were recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/graph/rank_dump.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {

// The numbers stand in the files.
enum class NodeType : uint8_t { kModule = 0, kApi = 1, kCollection = 9 };

inline constexpr std::string_view kRootName = "DefaultModel";

struct Node {
  std::string_view name;  // "Module.layers.0.Block.forward.0"
  NodeType type = NodeType::kModule;
  uint32_t parent = kNone;
  std::vector<uint32_t> children;
  uint32_t entry = kNone;  // of RankDump::side(); kNone: nothing was recorded of it
  std::span<const std::string> stack;
  std::optional<int64_t> micro_step;
  uint32_t match = kNone;  // the node of the other graph
};

class Graph {
 public:
  Graph();

  void Reserve(size_t count);                  // room for so many nodes
  uint32_t Find(std::string_view name) const;  // kNone: not there
  // A name that is not there yet.
  uint32_t Add(std::string_view name, NodeType type);
  void Attach(uint32_t node, uint32_t parent);
  // From the root down to the node.
  std::vector<uint32_t> PathOf(uint32_t node) const;
  // Children in front of their parents, the root last.
  std::vector<uint32_t> PostOrder() const;
  // Parents in front of their children, level by level.
  std::vector<uint32_t> LevelOrder() const;

  std::vector<Node> nodes;  // in the order in which they were made; the root is the first
  int64_t micro_step_count = 1;

 private:
  std::unordered_map<std::string_view, uint32_t> index_of_name_;
  std::unique_ptr<base::TextArena> names_ = std::make_unique<base::TextArena>();
};

inline constexpr uint32_t kRoot = 0;

}  // namespace msprobe::analysis::graph
