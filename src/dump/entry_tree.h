// One entry of a dump.json (a call's inputs and outputs) as a flat list of its values, which is
// reused from entry to entry: no document of the whole file ever exists. Entries are many and
// small, which is why they are not trees of nlohmann/json (see json/document.h): one of those costs
// an allocation for each text and container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/json/stream_reader.h"
#include "src/json/writer.h"

namespace msprobe::dump {

enum class NodeKind : uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject };

struct Node {
  NodeKind kind = NodeKind::kNull;
  bool boolean = false;
  uint32_t child_count = 0;
  uint32_t end = 0;       // index one past this node's last descendant: the next sibling
  std::string_view key;   // inside an object; empty in a list
  std::string_view text;  // kText; for kFloat the digits as written (also of integers beyond int64)
  int64_t integer = 0;    // kInt
  double number = 0;      // kInt, kFloat
};

// Nodes in document order; node 0 is the value itself. Children of i start at i + 1; a child's
// `end` is its next sibling.
class EntryTree {
 public:
  EntryTree() = default;
  // A copy owns its texts and is as small as possible.
  EntryTree(const EntryTree& other);
  EntryTree& operator=(const EntryTree& other);
  EntryTree(EntryTree&&) noexcept = default;
  EntryTree& operator=(EntryTree&&) noexcept = default;
  ~EntryTree() = default;

  const Node& operator[](uint32_t index) const { return nodes_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

  static constexpr uint32_t kNone = UINT32_MAX;
  // The child of object `index` with this key (the last one when it is there twice), or kNone.
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
  friend Status ParseEntry(std::string_view text, EntryTree& tree);

  // Lets every view into `old_text` point to the same place of `new_text`.
  void MoveViews(const char* old_text, const char* new_text);

  std::vector<Node> nodes_;
  std::vector<char> text_;  // all keys and texts of the value; a vector, so that moving the tree
                            // keeps the views valid
};

// Fills a tree from parser events, one value at a time. Memory of the tree is kept between values.
class EntryTreeBuilder final : public json::Handler {
 public:
  // A file with more values is broken or hostile; 4 Mi nodes are 256 MiB.
  static constexpr uint32_t kMaxNodes = uint32_t{1} << 22U;

  // Forgets the value built before.
  void Reset();
  // Keys and texts are not copied from now on: what they are views of outlives the tree.
  void BorrowTexts() { borrows_ = true; }

  // Each returns false when the value has become larger than kMaxNodes; the tree is then not
  // usable.
  bool OnNull() override { return Append(NodeKind::kNull) != nullptr; }
  bool OnBool(bool value) override;
  bool OnInt(int64_t value) override;
  bool OnFloat(double value, std::string_view digits) override;
  bool OnText(std::string_view value) override;
  bool OnKey(std::string_view key) override;
  bool OnBeginObject() override { return Begin(NodeKind::kObject); }
  bool OnEndObject() override { return End(); }
  bool OnBeginArray() override { return Begin(NodeKind::kList); }
  bool OnEndArray() override { return End(); }

  // True when one whole value has been built.
  bool complete() const { return open_.empty() && !tree_.nodes_.empty(); }
  const EntryTree& tree() const { return tree_; }
  // Hands the tree over; Reset() before the next value.
  EntryTree Take() { return std::move(tree_); }
  // Builds the next values in the memory of `tree`. Reset() follows.
  void Use(EntryTree tree) { tree_ = std::move(tree); }

 private:
  // A new node with the pending key, counted in its container; null when there are too many.
  Node* Append(NodeKind kind);
  bool Begin(NodeKind container);
  bool End();
  std::string_view Keep(std::string_view text) { return borrows_ ? text : Copy(text); }
  std::string_view Copy(std::string_view text);

  EntryTree tree_;
  std::vector<uint32_t> open_;  // indices of the containers around the next value
  std::string_view key_;
  size_t text_used_ = 0;  // of tree_.text_, whose size is the capacity in use
  bool borrows_ = false;
};

// A whole text as one value. Accepts what ParseStream accepts; a text of more values than a tree
// holds is an error.
Result<EntryTree> ParseEntry(std::string_view text);
// The same into a tree whose memory is used again; of no use after an error.
Status ParseEntry(std::string_view text, EntryTree& tree);

// A value of a tree, or a part of one, as text: JSON again, or as Python prints what json.load
// makes of it.

// The value at node `root` with everything below it; numbers keep the digits they were read with.
void WriteTree(const EntryTree& tree, uint32_t root, json::Writer& json);

// One line for people: a text as it is, everything else as JSON, "[1, null]".
std::string CompactText(const EntryTree& tree, uint32_t index);

// repr(): texts quoted, "None", "True", "[0, 1]", "{'k': 1.0}".
void AppendPythonRepr(const EntryTree& tree, uint32_t node, std::string& out);
// str(): as repr(), but a text stands without quotes.
std::string PythonStr(const EntryTree& tree, uint32_t node);
// "<class 'int'>" and so on.
std::string_view PythonClass(NodeKind kind);

}  // namespace msprobe::dump
