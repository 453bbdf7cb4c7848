// Small documents that people write: JSON (comments and trailing commas allowed) and YAML, loaded
// into a tree of nlohmann/json with the line of each value beside it, so that every complaint names
// file, line, key and the nearest valid key. Size, depth and number of values are limited.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/document.h"

namespace msprobe::json {

namespace internal {
struct Tree;
}

// A document with what messages need beside the tree.
class Config {
 public:
  explicit Config(std::string file_name = {});  // an empty object
  Config(std::string file_name, internal::Tree tree);

  std::string file;  // as the user named it
  const Json& root() const;

  // 1-based; 0 for a value that is not part of this document.
  int LineOf(const Json& value) const;
  // A scalar as the file spells it, a text without quotes and escapes; empty for all else.
  std::string_view SpellingOf(const Json& value) const;

  // "compare.json line 3: key \"npu_path\": must be text, not a list"
  Status ErrorAt(const Json& value, std::string_view key, std::string_view complaint) const;
  // Fails on the first key that is not in `valid`, suggesting the nearest one.
  Status CheckKeys(const Json& object, std::span<const std::string> valid) const;

  // Typed access to a member of `object`: the fallback when absent or null, an error when of
  // another kind.
  Result<std::string> Text(const Json& object, std::string_view key,
                           std::string_view fallback) const;
  Result<std::string> RequiredText(const Json& object, std::string_view key) const;
  Result<bool> Bool(const Json& object, std::string_view key, bool fallback) const;
  Result<std::vector<int64_t>> IntList(const Json& object, std::string_view key) const;
  Result<std::vector<std::string>> TextList(const Json& object, std::string_view key) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;  // shared by copies, so that values keep their places
};

Result<Config> LoadJsonConfig(const std::filesystem::path& path);
Result<Config> LoadYamlConfig(const std::filesystem::path& path);
Result<Config> ParseJsonConfig(std::string_view text, std::string file_name);
Result<Config> ParseYamlConfig(std::string_view text, std::string file_name);

// The text of a JSON config whose top-level member `key` is `value` then. Nothing else in it
// changes, comments included; a member that is not there becomes the first one. Fails where the
// text is not an object, or the member neither true, false nor null.
Result<std::string> WithFlag(std::string_view text, std::string file_name, std::string_view key,
                             bool value);

// YAML that somebody else's program reads, as PyYAML would: "<<" merges, a key given twice keeps
// its last value, "1:30" is 90, dates and bytes are texts. The same for JSON. Integers beyond 64
// bits keep their digits (BigInteger).
enum class YamlKeys : uint8_t {
  kAny,    // scalars, by their spelling
  kTexts,  // other keys are errors, except at the top, where they are spelled as JSON spells them;
           // dates and bytes are null
};
Result<Json> ParseYamlData(std::string_view text, std::string_view file_name,
                           YamlKeys keys = YamlKeys::kAny);
Result<Json> ParseJsonData(std::string_view text, std::string_view file_name);

// Typed access to the keys of one object of a configuration. A key that is absent or null leaves
// the value as it is. Complaints name file, line, key path, value and what is allowed.

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
  SettingsReader(const Config& config, const Json& object, std::string_view section)
      : config_(config), object_(object), section_(section) {}

  const Config& config() const { return config_; }
  // nullptr: absent or null.
  const Json* Find(std::string_view key) const;
  // "config.json line 3: key "statistics.list": ..."
  Status Error(const Json& value, std::string_view key, std::string_view complaint) const;

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
  Status NumbersOf(const Json& item, std::string_view key, size_t index, int64_t& first,
                   int64_t& last) const;

  const Config& config_;
  const Json& object_;
  std::string_view section_;
};

// "no such key", with the nearest of the valid ones or all of them as hint.
Status UnknownKeyError(const SettingsReader& reader, const Json& value, std::string_view key,
                       std::span<const std::string> valid);

// A value as a complaint shows it: "\"L5\"", "17", "a list".
std::string ShownValue(const Json& value);

}  // namespace msprobe::json
