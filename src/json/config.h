// Small documents that people write: JSON (comments and trailing commas allowed) and YAML, loaded
// into one tree that remembers where each value stood, so that every complaint names file, line,
// key and the nearest valid key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::json {

enum class ConfigKind : uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject };
std::string_view ConfigKindName(ConfigKind kind);  // "a list", "text", ...

struct ConfigValue {
  ConfigKind kind = ConfigKind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;  // also set for integers
  std::string text;   // of kText; for YAML scalars of other kinds the original spelling
  std::vector<ConfigValue> items;
  std::vector<std::pair<std::string, ConfigValue>>
      members;   // in file order; a duplicate key is an error
  int line = 0;  // 1-based
  // JSON: bytes of the text up to the end of the word of true, false and null, or behind the
  // opening bracket; 0 for all else.
  size_t end = 0;
  // Of YAML data only: text to us, but a date or bytes to YAML; and what the key of this member
  // would be if it were a value.
  bool is_typed_text = false;
  ConfigKind key_kind = ConfigKind::kText;

  // Defined in config.cpp: while the struct is incomplete, clang cannot define them for `members`.
  ConfigValue();
  ConfigValue(const ConfigValue& other);
  ConfigValue& operator=(const ConfigValue& other);
  ConfigValue(ConfigValue&& other) noexcept;
  ConfigValue& operator=(ConfigValue&& other) noexcept;
  ~ConfigValue();

  const ConfigValue* Find(std::string_view key) const;
};

struct Config {
  std::string file;  // as the user named it
  ConfigValue root;

  // "compare.json line 3: key \"npu_path\": must be text, not a list"
  Status ErrorAt(const ConfigValue& value, std::string_view key, std::string_view complaint) const;
  // Fails on the first key that is not in `valid`, suggesting the nearest one.
  Status CheckKeys(const ConfigValue& object, std::span<const std::string> valid) const;

  // Typed access to a member of `object`: the fallback when absent or null, an error when of
  // another kind.
  Result<std::string> Text(const ConfigValue& object, std::string_view key,
                           std::string_view fallback) const;
  Result<std::string> RequiredText(const ConfigValue& object, std::string_view key) const;
  Result<bool> Bool(const ConfigValue& object, std::string_view key, bool fallback) const;
  Result<std::vector<int64_t>> IntList(const ConfigValue& object, std::string_view key) const;
  Result<std::vector<std::string>> TextList(const ConfigValue& object, std::string_view key) const;
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
// its last value, "1:30" is 90, dates and bytes are kept as text. The same for JSON.
Result<Config> ParseYamlData(std::string_view text, std::string file_name);
Result<Config> ParseJsonData(std::string_view text, std::string file_name);

}  // namespace msprobe::json

namespace msprobe::json::internal {

// Builds the tree of config.h from events in file order, without recursion,
// within limits.

constexpr uint64_t kConfigLimitBytes = uint64_t{64} << 20U;
constexpr int kConfigDepth = 100;
constexpr size_t kConfigNodes = 4'000'000;

// How a document is read: settings of ours, where a key given twice is a mistake, or data of
// somebody else's program, where the last one counts.
enum class TreeUse : uint8_t { kSettings, kData };

class TreeBuilder {
 public:
  explicit TreeBuilder(TreeUse use = TreeUse::kSettings) : use_(use) {}

  // All return false once something is wrong; status() then names the line.
  bool Add(ConfigValue value);                            // a scalar, or a finished subtree
  bool Begin(ConfigKind kind, int line, size_t end = 0);  // `end`: ConfigValue::end
  bool Key(std::string key, int line, ConfigKind kind = ConfigKind::kText);
  // The next value is an object, or a list of them, whose members stand in for missing ones here.
  bool MergeKey(int line);
  bool End();
  bool Fail(int line, std::string_view complaint);

  bool open() const { return !open_.empty(); }
  // True where an object waits for its next key.
  bool expects_key() const;
  size_t depth() const { return open_.size(); }
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  // The value that was finished last, where it now stands in the tree. Valid until the next event.
  const ConfigValue* last() const { return last_; }
  // Counts values made outside of Add (copies), so that no document grows beyond its limit.
  bool Count(size_t nodes, int line);
  ConfigValue TakeRoot() { return std::move(root_); }

 private:
  struct Level {
    ConfigValue value;
    std::string key;
    int key_line = 0;
    bool has_key = false;
    bool is_merge = false;  // the key at hand is MergeKey's
    ConfigKind key_kind = ConfigKind::kText;
    std::vector<ConfigValue> merged;  // objects; the later ones count
    std::vector<int> key_lines;       // one per member
  };
  bool Place(ConfigValue value);
  bool PlaceMerged(Level& level, ConfigValue value);
  bool CheckDuplicates(const Level& level);
  static void KeepLastMembers(Level& level);

  const TreeUse use_;
  std::vector<Level> open_;
  ConfigValue root_;
  const ConfigValue* last_ = nullptr;
  size_t nodes_ = 0;
  Status status_;
};

}  // namespace msprobe::json::internal

namespace msprobe::json {

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
  SettingsReader(const Config& config, const ConfigValue& object, std::string_view section)
      : config_(config), object_(object), section_(section) {}

  const Config& config() const { return config_; }
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
