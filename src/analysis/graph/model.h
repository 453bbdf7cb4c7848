// A model as a tree of modules and calls, in the order in which they were recorded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/side.h"
#include "src/base/strings.h"
#include "src/dump/entry_scan.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::graph {

// One rank of one side as it was recorded: its values, its module tree, its stacks.

inline constexpr uint32_t kNone = UINT32_MAX;

class RankDump {
 public:
  // Reads dump.json, construct.json and stack.json of a folder; all three must be there, and
  // construct.json must name something. `keep_entry`: which entries to read; null: all.
  using KeepEntry = std::function<bool(std::string_view name)>;
  static Result<RankDump> Load(const std::filesystem::path& folder,
                               const KeepEntry& keep_entry = nullptr);

  const std::filesystem::path& folder() const { return folder_; }
  const compare::Side& side() const { return side_; }
  compare::Side& side() { return side_; }
  const dump::ConstructFile& construct() const { return construct_; }
  dump::ConstructFile& construct() { return construct_; }
  const dump::StackFile& stacks() const { return stacks_; }
  dump::StackFile& stacks() { return stacks_; }

  // Whether a row, of those that were read, is one of its node's outputs; parameters and gradients
  // are among the inputs.
  bool IsOutput(uint32_t row) const { return is_output_[row]; }

  uint32_t FindEntry(std::string_view name) const;  // index into side().entries, or kNone
  // The entry as it is in the file; SideRow::leaf is an index into it.
  Result<dump::EntryTree> ReadEntry(uint32_t entry) const;
  // The same in the memory of an earlier tree.
  Status ReadEntry(uint32_t entry, dump::EntryTree& tree) const;

 private:
  RankDump() = default;
  Status FindPlaces(const KeepEntry& keep_entry);

  std::filesystem::path folder_;
  compare::Side side_;
  dump::ConstructFile construct_;
  dump::StackFile stacks_;
  std::vector<bool> is_output_;          // by row
  std::vector<dump::TextPlace> places_;  // by entry
  std::optional<dump::EntryAccess> access_;
  std::unordered_map<std::string_view, uint32_t> entry_of_name_;
};

// The numbers are part of the file formats.
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
