// One entry of a dump.json (a call's inputs and outputs) as a flat tree that is reused from entry to entry: no document of the
// whole file ever exists.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::dump {

enum class NodeKind : uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject };

struct Node {
  NodeKind kind = NodeKind::kNull;
  bool boolean = false;
  uint32_t child_count = 0;
  uint32_t end = 0;            // index one past this node's last descendant: the next sibling
  std::string_view key;        // inside an object; empty in a list
  std::string_view text;       // kText; for kFloat the digits as written
  int64_t integer = 0;         // kInt
  double number = 0;           // kInt, kFloat
};

// Nodes in document order; node 0 is the entry itself. Children of i start at i + 1; a child's `end` is its next sibling.
class EntryTree {
 public:
  const Node& operator[](uint32_t index) const { return nodes_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

  static constexpr uint32_t kNone = UINT32_MAX;
  // The child of object `index` with this key, or kNone.
  uint32_t Find(uint32_t index, std::string_view key) const;

  // Calls visit(child_index) for each direct child.
  template <typename Visit>
  void ForEachChild(uint32_t index, Visit&& visit) const {
    for (uint32_t child = index + 1; child < nodes_[index].end; child = nodes_[child].end) {
      visit(child);
    }
  }

 private:
  friend class EntryTreeBuilder;
  std::vector<Node> nodes_;
  std::string text_;   // all keys and texts of the entry; views are fixed when the entry is complete
};

}  // namespace msprobe::dump
