// Hyperparameters by name, in the order in which they were first seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/json/config.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"
#include "src/report/table.h"

namespace msprobe::analysis::config_check::internal {

// How long the names of nested values may become. A value is named by its whole
// path, so that one long key above many short ones makes a small file large.

class NameBudget {
 public:
  // What names may come to in addition to the bytes that they were read from.
  static constexpr size_t kMostNameBytes = size_t{16} << 20U;

  explicit NameBudget(size_t bytes = 0) : limit_(kMostNameBytes + bytes) {}

  void Add(size_t bytes) { limit_ += bytes; }
  Status Take(std::string_view name) {
    taken_ += name.size();
    if (taken_ > limit_) {
      return UnsupportedError(
                 fmt::format("the names of its nested values come to more than {} bytes", limit_))
          .WithHint("each is named by all keys above it: shorten the keys, or leave the file out");
    }
    return {};
  }

 private:
  size_t limit_;
  size_t taken_ = 0;
};

class Parameters {
 public:
  // A name that is there keeps its place and gets the new value.
  void Set(const std::string& name, json::ConfigValue value);
  const json::ConfigValue* Find(const std::string& name) const;
  size_t size() const { return object_.members.size(); }
  const json::ConfigValue& object() const { return object_; }
  // One object; nothing is left.
  json::ConfigValue Take();

 private:
  json::ConfigValue object_ = MakeObject();
  std::unordered_map<std::string, size_t> places_;

  static json::ConfigValue MakeObject() {
    json::ConfigValue object;
    object.kind = json::ConfigKind::kObject;
    return object;
  }
};

// "description" of the object that stands for the values which several files give.
inline constexpr std::string_view kSeveralValues = "duplicate_value";

// As JSON.
void WriteParameter(const json::ConfigValue& value, json::Writer& writer);

inline json::ConfigValue TextParameter(std::string text) {
  json::ConfigValue value;
  value.kind = json::ConfigKind::kText;
  value.text = std::move(text);
  return value;
}

// The values that a parameter may have, or has in several places: the Python tool's way to say so.
json::ConfigValue OneOf(std::vector<json::ConfigValue> values);
// The values of such a one; nullptr: it is one value.
const std::vector<json::ConfigValue>* ValuesOf(const json::ConfigValue& value);

inline json::ConfigValue TrueParameter() {
  json::ConfigValue value;
  value.kind = json::ConfigKind::kBool;
  value.boolean = true;
  return value;
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {

// What must not travel inside a pack or stand in a result, by the rules of base/secrets.h: here for
// values that hold others.

// Masks a hyperparameter in place, with all that is inside of it; returns how many values were
// replaced.
size_t MaskParameter(std::string_view name, json::ConfigValue& value);

struct MaskedTree {
  json::ValueTree tree;
  size_t count = 0;
};
// The same for an object of parameters. Masking twice changes nothing more, so two sides of which
// only one was masked agree after both were.
MaskedTree MaskParameters(const json::ValueTree& tree);

// Values of a pack's JSON members as the Python tool compares and shows them.

// The members of an object as a Python dict has them: a key that is there twice keeps its first
// place and its last value. Empty for anything but an object. Borrows from the tree.
class Members {
 public:
  struct Member {
    std::string_view key;
    uint32_t node = 0;
  };

  Members(const json::ValueTree& tree, uint32_t node);

  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  size_t size() const { return members_.size(); }
  const Member& operator[](size_t place) const { return members_[place]; }
  // The place of a key, nullopt when there is none.
  std::optional<size_t> IndexOf(std::string_view key) const;
  // Its node, ValueTree::kNone when there is none.
  uint32_t Find(std::string_view key) const;

 private:
  std::vector<Member> members_;
  std::unordered_map<std::string_view, size_t> places_;
};

// a == b in Python: 1 == 1.0 == True, "1" is not 1, NaN is not NaN, containers by content.
bool PythonEqual(const json::ValueTree& a, uint32_t node_a, const json::ValueTree& b,
                 uint32_t node_b);

// How a value stands in the workbook: numbers and booleans as such, None, NaN and empty texts
// blank, infinities as "inf" and "-inf", containers as Python prints them.
report::Cell ValueCell(report::Table& table, const json::ValueTree& tree, uint32_t node);
report::Cell NumberCell(double value);

}  // namespace msprobe::analysis::config_check
