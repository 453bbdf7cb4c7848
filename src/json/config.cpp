#include "src/json/config.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::json {

std::string_view ConfigKindName(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::kNull:
      return "null";
    case ConfigKind::kBool:
      return "true or false";
    case ConfigKind::kInt:
      return "an integer";
    case ConfigKind::kFloat:
      return "a number";
    case ConfigKind::kText:
      return "text";
    case ConfigKind::kList:
      return "a list";
    case ConfigKind::kObject:
      return "an object";
  }
  return "unknown";
}

ConfigValue::ConfigValue() = default;
ConfigValue::ConfigValue(const ConfigValue& other) = default;
ConfigValue& ConfigValue::operator=(const ConfigValue& other) = default;
ConfigValue::ConfigValue(ConfigValue&& other) noexcept = default;
ConfigValue& ConfigValue::operator=(ConfigValue&& other) noexcept = default;
ConfigValue::~ConfigValue() = default;

const ConfigValue* ConfigValue::Find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [key](const auto& member) { return member.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

Status Config::ErrorAt(const ConfigValue& value, std::string_view key,
                       std::string_view complaint) const {
  return UsageError(
      key.empty() ? fmt::format("{} line {}: {}", file, value.line, complaint)
                  : fmt::format("{} line {}: key \"{}\": {}", file, value.line, key, complaint));
}

Status Config::CheckKeys(const ConfigValue& object, std::span<const std::string> valid) const {
  for (const auto& [key, value] : object.members) {
    if (std::find(valid.begin(), valid.end(), key) != valid.end()) {
      continue;
    }
    Status error = ErrorAt(value, key, "no such key");
    if (const auto nearest = base::NearestMatch(key, valid)) {
      return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
    }
    return std::move(error).WithHint(fmt::format("valid keys: {}", base::Join(valid, ", ")));
  }
  return {};
}

namespace {

// The member if it is there and not null.
const ConfigValue* Given(const ConfigValue& object, std::string_view key) {
  const ConfigValue* value = object.Find(key);
  return value == nullptr || value->kind == ConfigKind::kNull ? nullptr : value;
}

Status WrongKind(const Config& config, const ConfigValue& value, std::string_view key,
                 std::string_view wanted) {
  return config.ErrorAt(value, key,
                        fmt::format("must be {}, not {}", wanted, ConfigKindName(value.kind)));
}

Status WrongItem(const Config& config, const ConfigValue& item, std::string_view key,
                 std::string_view wanted) {
  return config.ErrorAt(
      item, key, fmt::format("every item must be {}, not {}", wanted, ConfigKindName(item.kind)));
}

}  // namespace

Result<std::string> Config::Text(const ConfigValue& object, std::string_view key,
                                 std::string_view fallback) const {
  const ConfigValue* value = Given(object, key);
  if (value == nullptr) {
    return std::string(fallback);
  }
  if (value->kind != ConfigKind::kText) {
    return WrongKind(*this, *value, key, "text");
  }
  return value->text;
}

Result<std::string> Config::RequiredText(const ConfigValue& object, std::string_view key) const {
  if (Given(object, key) == nullptr) {
    return ErrorAt(object, key, "is missing");
  }
  return Text(object, key, "");
}

Result<bool> Config::Bool(const ConfigValue& object, std::string_view key, bool fallback) const {
  const ConfigValue* value = Given(object, key);
  if (value == nullptr) {
    return fallback;
  }
  if (value->kind != ConfigKind::kBool) {
    return WrongKind(*this, *value, key, "true or false");
  }
  return value->boolean;
}

Result<std::vector<int64_t>> Config::IntList(const ConfigValue& object,
                                             std::string_view key) const {
  std::vector<int64_t> numbers;
  const ConfigValue* value = Given(object, key);
  if (value == nullptr) {
    return numbers;
  }
  if (value->kind != ConfigKind::kList) {
    return WrongKind(*this, *value, key, "a list of integers");
  }
  for (const ConfigValue& item : value->items) {
    if (item.kind != ConfigKind::kInt) {
      return WrongItem(*this, item, key, "an integer");
    }
    numbers.push_back(item.integer);
  }
  return numbers;
}

Result<std::vector<std::string>> Config::TextList(const ConfigValue& object,
                                                  std::string_view key) const {
  std::vector<std::string> texts;
  const ConfigValue* value = Given(object, key);
  if (value == nullptr) {
    return texts;
  }
  if (value->kind != ConfigKind::kList) {
    return WrongKind(*this, *value, key, "a list of texts");
  }
  for (const ConfigValue& item : value->items) {
    if (item.kind != ConfigKind::kText) {
      return WrongItem(*this, item, key, "text");
    }
    texts.push_back(item.text);
  }
  return texts;
}

}  // namespace msprobe::json
