// Typed access to the keys of one object of a configuration. A key that is absent or null leaves
// the value as it is. Complaints name file, line, key path, value and what is allowed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/config.h"

namespace msprobe::json {

// One value of an enum as a configuration spells it.
template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};
template <typename Value, size_t kCount>
std::string_view NameOf(const std::array<Choice<Value>, kCount>& choices, Value value) {
  for (const Choice<Value>& choice : choices) {
    if (choice.value == value) {
      return choice.name;
    }
  }
  return {};
}

class SettingsReader {
 public:
  // `section`: the key under which `object` stands; empty for the top level. Both references are
  // borrowed.
  SettingsReader(const Config& config, const ConfigValue& object, std::string_view section)
      : config_(config), object_(object), section_(section) {}

  // nullptr: absent or null.
  const ConfigValue* Find(std::string_view key) const;
  // "config.json line 3: key "statistics.list": ..."
  Status Error(const ConfigValue& value, std::string_view key, std::string_view complaint) const;

  Status Bool(std::string_view key, bool& out) const;
  Status Int(std::string_view key, int64_t least, int64_t most, int64_t& out) const;
  Status Text(std::string_view key, std::string& out) const;
  Status TextList(std::string_view key, std::vector<std::string>& out) const;
  // Integers of 0 to 1000000 and texts "3" or "3-5"; the result is sorted, without doubles.
  Status NumberSet(std::string_view key, std::vector<int64_t>& out) const;
  // One of the names; an empty text counts as absent.
  Status OneOf(std::string_view key, std::span<const std::string_view> names,
               std::string_view& out) const;

  template <typename Value, size_t kCount>
  Status Choose(std::string_view key, const std::array<Choice<Value>, kCount>& choices,
                Value& out) const {
    std::array<std::string_view, kCount> names;
    for (size_t i = 0; i < kCount; ++i) {
      names[i] = choices[i].name;
    }
    std::string_view chosen;
    MSP_RETURN_IF_ERROR(OneOf(key, names, chosen));
    for (const Choice<Value>& choice : choices) {
      out = choice.name == chosen ? choice.value : out;
    }
    return {};
  }

 private:
  Status NumbersOf(const ConfigValue& item, std::string_view key, size_t index, int64_t& first,
                   int64_t& last) const;

  const Config& config_;
  const ConfigValue& object_;
  std::string_view section_;
};

// A value as a complaint shows it: "\"L5\"", "17", "a list".
std::string ShownValue(const ConfigValue& value);

}  // namespace msprobe::json
