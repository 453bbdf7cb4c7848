// Hyperparameters by name, in the order in which they were first seen.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/json/document.h"
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
  void Set(const std::string& name, json::Json value);
  const json::Json* Find(const std::string& name) const;
  size_t size() const { return object_.size(); }
  const json::Json& object() const { return object_; }
  // One object; nothing is left.
  json::Json Take();

 private:
  json::Json object_ = json::Json::object();
  std::unordered_map<std::string, size_t> places_;
};

// "description" of the object that stands for the values which several files give.
inline constexpr std::string_view kSeveralValues = "duplicate_value";

// The values that a parameter may have, or has in several places: the Python tool's way to say so.
json::Json OneOf(std::vector<json::Json> values);
// The values of such a one; nullptr: it is one value.
const json::Json* ValuesOf(const json::Json& value);

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {

// What must not travel inside a pack or stand in a result, by the rules of base/secrets.h: masks a
// parameter in place, with all that is inside of it, and returns how many values were replaced.
// Without a name it is an object of parameters. Masking twice changes nothing more, so two sides of
// which only one was masked agree after both were.
size_t MaskParameters(json::Json& value, std::string_view name = {});

// Values of a pack's JSON members as the Python tool compares and shows them.

// The members of an object by name; none of anything else. Borrows from the tree.
class Members {
 public:
  struct Member {
    std::string_view key;
    const json::Json* value = nullptr;
  };

  explicit Members(const json::Json& object);

  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  size_t size() const { return members_.size(); }
  const Member& operator[](size_t place) const { return members_[place]; }
  // The place of a key, nullopt when there is none.
  std::optional<size_t> IndexOf(std::string_view key) const;
  // nullptr when there is none.
  const json::Json* Find(std::string_view key) const;

 private:
  std::vector<Member> members_;
  std::unordered_map<std::string_view, size_t> places_;
};

// a == b in Python: 1 == 1.0 == True, "1" is not 1, NaN is not NaN, containers by content.
bool PythonEqual(const json::Json& a, const json::Json& b);

// How a value stands in the workbook: numbers and booleans as such, None, NaN and empty texts
// blank, infinities as "inf" and "-inf", containers as Python prints them.
report::Cell ValueCell(report::Table& table, const json::Json& value);
report::Cell NumberCell(double value);

}  // namespace msprobe::analysis::config_check
