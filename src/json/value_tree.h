// One JSON value as a flat tree: a small file as a whole, or one entry after another of a large
// file in memory that is reused, so that no document of it ever exists.
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

namespace msprobe::json {

// A quick way over the JSON that dumps are mostly made of, for readers that want a few values out
// of very many small documents. ParseStream judges all that is unusual.

namespace internal {

template <typename Events>
class PlainWalk {
 public:
  PlainWalk(std::string_view text, Events& events)
      : at_(text.data()), end_(text.data() + text.size()), events_(events) {}

  // The last byte is a bracket, which ends numbers, words and blanks. So only who goes past a
  // bracket, or over a text, where a bracket means nothing, has to ask whether there is more.
  bool Run() {
    if (end_ - at_ < 2 || *at_ != '{' || end_[-1] != '}') {
      return false;
    }
    do {
      if (!Value() || !Next()) {
        return false;
      }
      if constexpr (requires { events_.stopped(); }) {
        if (events_.stopped()) {
          return true;
        }
      }
    } while (depth_ > 0);
    return at_ == end_;
  }

 private:
  // For events that know OnPlace(at): `at` is the bracket that an object or a list begins with, or
  // the place behind the one it ends with, whose event comes next.
  void TellPlace(const char* at) {
    if constexpr (requires { events_.OnPlace(at); }) {
      events_.OnPlace(at);
    }
  }

  static constexpr unsigned kDeepest = 64;  // one bit each
  static constexpr std::ptrdiff_t kLongestNumber = 32;

  bool in_object() const { return (objects_ & 1U) != 0; }
  bool IsAt(char c) const { return *at_ == c; }
  bool IsAtClosing() const { return IsAt(in_object() ? '}' : ']'); }

  // From the beginning of a value to behind the first that is not a container or an empty one,
  // which is left open.
  bool Value() {
    while (IsAt('{') || IsAt('[')) {
      if (!Open()) {
        return false;
      }
      if (IsAtClosing()) {
        return true;
      }
      if (in_object() && !Key()) {
        return false;
      }
    }
    return Scalar();
  }

  // From behind a value to the next one, or behind the last.
  bool Next() {
    while (depth_ > 0) {
      if (at_ == end_) {
        return false;
      }
      at_ = SkipBlanks(at_, end_);
      if (IsAt(',')) {
        at_ = SkipBlanks(at_ + 1, end_);
        return !in_object() || Key();
      }
      if (!IsAtClosing()) {
        return false;
      }
      Close();
    }
    return true;
  }

  bool Open() {
    if (depth_ == kDeepest) {
      return false;
    }
    const bool is_object = *at_ == '{';
    TellPlace(at_);
    is_object ? events_.OnBeginObject() : events_.OnBeginArray();
    objects_ = objects_ << 1U | (is_object ? 1U : 0U);
    ++depth_;
    at_ = SkipBlanks(at_ + 1, end_);
    return true;
  }

  void Close() {
    TellPlace(at_ + 1);
    in_object() ? events_.OnEndObject() : events_.OnEndArray();
    objects_ >>= 1U;
    --depth_;
    ++at_;
  }

  // From a key to the value behind it.
  bool Key() {
    std::string_view key;
    if (!IsAt('"') || !Text(key)) {
      return false;
    }
    events_.OnKey(key);
    at_ = SkipBlanks(at_, end_);
    if (!IsAt(':')) {
      return false;
    }
    at_ = SkipBlanks(at_ + 1, end_);
    return true;
  }

  bool Scalar() {
    switch (*at_) {
      case '"': {
        std::string_view text;
        if (!Text(text)) {
          return false;
        }
        events_.OnText(text);
        return true;
      }
      case 't':
        if (!Word("true")) {
          return false;
        }
        events_.OnBool(true);
        return true;
      case 'f':
        if (!Word("false")) {
          return false;
        }
        events_.OnBool(false);
        return true;
      case 'n':
        if (!Word("null")) {
          return false;
        }
        events_.OnNull();
        return true;
      default:
        return Number();
    }
  }

  // A text without escapes; `at_` is its quote.
  bool Text(std::string_view& text) {
    const char* const begin = at_ + 1;
    at_ = EndOfPlainRun(begin, end_);
    text = std::string_view(begin, static_cast<size_t>(at_ - begin));
    if (at_ == end_ || !IsAt('"')) {
      return false;
    }
    ++at_;
    return true;
  }

  bool Word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  bool Digits() {
    const char* const begin = at_;
    while (*at_ >= '0' && *at_ <= '9') {
      ++at_;
    }
    return at_ != begin;
  }

  bool Number() {
    const char* const begin = at_;
    at_ += *at_ == '-' ? 1 : 0;
    const char* const digits = at_;
    if (IsAt('I') || IsAt('N')) {
      if (!Word("Infinity") && (at_ != begin || !Word("NaN"))) {
        return false;
      }
    } else if (!Digits() || (*digits == '0' && at_ - digits > 1) || !Fraction() || !Exponent() ||
               at_ - begin > kLongestNumber) {
      return false;
    }
    events_.OnNumber(std::string_view(begin, static_cast<size_t>(at_ - begin)));
    return true;
  }

  bool Fraction() {
    if (!IsAt('.')) {
      return true;
    }
    ++at_;
    return Digits();
  }

  // Of at most two digits: no number is beyond what a double holds.
  bool Exponent() {
    if (!IsAt('e') && !IsAt('E')) {
      return true;
    }
    ++at_;
    at_ += IsAt('+') || IsAt('-') ? 1 : 0;
    const char* const digits = at_;
    return Digits() && at_ - digits <= 2;
  }

  const char* at_;
  const char* const end_;
  Events& events_;
  uint64_t objects_ = 0;  // bit 0 speaks of the innermost open container
  unsigned depth_ = 0;
};

}  // namespace internal

// True: `text` is a JSON object, and `events`, a class with the functions of Handler, was told the
// same as ParseStream would have told it. Its answers are not asked for, but where it has a
// function stopped(), nothing is read once that is true. False: the text is damaged or holds what
// json.dump of Python seldom writes (escapes, numbers of many digits, deep nesting); `events` has
// then heard a part of it and is of no more use, and ParseStream has the answer.
template <typename Events>
bool WalkPlainObject(std::string_view text, Events& events) {
  return internal::PlainWalk<Events>(text, events).Run();
}

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

// A value of a tree, or a part of one, as text: JSON again, or as Python prints what json.load
// makes of it.

// The value at node `root` with everything below it; numbers keep the digits they were read with.
void WriteTree(const ValueTree& tree, uint32_t root, Writer& json);

// One line for people: a text as it is, everything else as JSON, "[1, null]".
std::string CompactText(const ValueTree& tree, uint32_t index);

// repr(): texts quoted, "None", "True", "[0, 1]", "{'k': 1.0}".
void AppendPythonRepr(const ValueTree& tree, uint32_t node, std::string& out);
// str(): as repr(), but a text stands without quotes.
std::string PythonStr(const ValueTree& tree, uint32_t node);
// "<class 'int'>" and so on.
std::string_view PythonClass(ValueKind kind);

}  // namespace msprobe::json
