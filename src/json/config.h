// Small documents that people write: JSON (comments and trailing commas allowed) and YAML, loaded
// into one tree that remembers where each value stood, so that every complaint names file, line,
// key and the nearest valid key.
#pragma once

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
// text is no object, or the member neither true, false nor null.
Result<std::string> WithFlag(std::string_view text, std::string file_name, std::string_view key,
                             bool value);

// YAML that somebody else's program reads, as PyYAML would: "<<" merges, a key given twice keeps
// its last value, "1:30" is 90, dates and bytes are kept as text. The same for JSON.
Result<Config> ParseYamlData(std::string_view text, std::string file_name);
Result<Config> ParseJsonData(std::string_view text, std::string file_name);

}  // namespace msprobe::json
