// One JSON value as a flat tree: a small file as a whole, or one entry after another of a large
// file in memory that is reused, so that no document of it ever exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::json {

enum class ValueKind : uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject };

struct ValueNode {
  ValueKind kind = ValueKind::kNull;
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
class ValueTree {
 public:
  ValueTree() = default;
  // A copy owns its texts and is as small as can be.
  ValueTree(const ValueTree& other);
  ValueTree& operator=(const ValueTree& other);
  ValueTree(ValueTree&&) noexcept = default;
  ValueTree& operator=(ValueTree&&) noexcept = default;
  ~ValueTree() = default;

  const ValueNode& operator[](uint32_t index) const { return nodes_[index]; }
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
  friend class ValueTreeBuilder;
  friend Status ParseValueTree(std::string_view text, ValueTree& tree);

  // Lets every view into `old_text` point to the same place of `new_text`.
  void MoveViews(const char* old_text, const char* new_text);

  std::vector<ValueNode> nodes_;
  std::vector<char> text_;  // all keys and texts of the value; a vector, so that moving the tree
                            // keeps the views valid
};

// Fills a tree from parser events, one value at a time. Memory of the tree is kept between values.
class ValueTreeBuilder {
 public:
  // What holds more values is a broken or hostile file; 4 Mi nodes are 256 MiB.
  static constexpr uint32_t kMaxNodes = uint32_t{1} << 22U;

  // Forgets the value built before.
  void Reset();
  // Keys and texts are not copied from now on: what they are views of outlives the tree.
  void BorrowTexts() { borrows_ = true; }

  // Each returns false when the value has become larger than kMaxNodes; the tree is then not
  // usable.
  bool Null();
  bool Bool(bool value);
  bool Int(int64_t value);
  bool Float(double value, std::string_view digits);
  bool Text(std::string_view value);
  bool Begin(ValueKind container);
  void Key(std::string_view key);
  void End();

  // True when one whole value has been built.
  bool complete() const { return open_.empty() && !tree_.nodes_.empty(); }
  const ValueTree& tree() const { return tree_; }
  // Hands the tree over; Reset() before the next value.
  ValueTree Take() { return std::move(tree_); }
  // Builds the next values in the memory of `tree`. Reset() follows.
  void Use(ValueTree tree) { tree_ = std::move(tree); }

 private:
  // A new node with the pending key, counted in its container; null when there are too many.
  ValueNode* Append(ValueKind kind);
  std::string_view Keep(std::string_view text) { return borrows_ ? text : Copy(text); }
  std::string_view Copy(std::string_view text);

  ValueTree tree_;
  std::vector<uint32_t> open_;  // indices of the containers around the next value
  std::string_view key_;
  size_t text_used_ = 0;  // of tree_.text_, whose size is the capacity in use
  bool borrows_ = false;
};

// A whole text as one value. Accepts what ParseStream accepts; a text of more values than a tree
// holds is an error.
Result<ValueTree> ParseValueTree(std::string_view text);
// The same into a tree whose memory is used again; of no use after an error.
Status ParseValueTree(std::string_view text, ValueTree& tree);

}  // namespace msprobe::json
