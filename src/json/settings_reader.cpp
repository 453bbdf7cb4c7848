#include "src/json/settings_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::json {
namespace {

constexpr int64_t kLargestNumber = 1'000'000;
constexpr size_t kMostItems = 1'000'000;
constexpr size_t kShownCharacters = 60;
constexpr std::string_view kNumberRule =
    "allowed: integers from 0 to 1000000 and ranges such as \"3-5\"";

// Decimal digits only, so that neither "+3" nor " 3" nor "0x3" is a number.
std::optional<int64_t> Digits(std::string_view text) {
  const bool digits = !text.empty() && text.size() <= 18 &&
                      text.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? base::ParseInt(text) : std::nullopt;
}

}  // namespace

std::string ShownValue(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigKind::kBool:
      return value.boolean ? "true" : "false";
    case ConfigKind::kInt:
      return fmt::format("{}", value.integer);
    case ConfigKind::kFloat:
      return base::PythonFloatRepr(value.number);
    case ConfigKind::kText: {
      const bool whole = value.text.size() <= kShownCharacters;
      return fmt::format("\"{}{}\"",
                         base::Printable(std::string_view(value.text).substr(0, kShownCharacters)),
                         whole ? "" : "...");
    }
    default:
      return std::string(ConfigKindName(value.kind));
  }
}

const ConfigValue* SettingsReader::Find(std::string_view key) const {
  const ConfigValue* value = object_.Find(key);
  return value == nullptr || value->kind == ConfigKind::kNull ? nullptr : value;
}

Status SettingsReader::Error(const ConfigValue& value, std::string_view key,
                             std::string_view complaint) const {
  return config_.ErrorAt(
      value, section_.empty() ? std::string(key) : fmt::format("{}.{}", section_, key), complaint);
}

Status SettingsReader::Bool(std::string_view key, bool& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kBool) {
    return Error(*value, key, fmt::format("is {}; allowed: true, false", ShownValue(*value)));
  }
  out = value->boolean;
  return {};
}

Status SettingsReader::Int(std::string_view key, int64_t least, int64_t most, int64_t& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kInt || value->integer < least || value->integer > most) {
    return Error(
        *value, key,
        fmt::format("is {}; allowed: integers from {} to {}", ShownValue(*value), least, most));
  }
  out = value->integer;
  return {};
}

Status SettingsReader::Text(std::string_view key, std::string& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kText) {
    return Error(*value, key, fmt::format("is {}; allowed: a text", ShownValue(*value)));
  }
  out = value->text;
  return {};
}

Status SettingsReader::TextList(std::string_view key, std::vector<std::string>& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kList) {
    return Error(*value, key, fmt::format("is {}; allowed: a list of texts", ShownValue(*value)));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < value->items.size(); ++i) {
    const ConfigValue& item = value->items[i];
    if (item.kind != ConfigKind::kText) {
      return Error(item, key,
                   fmt::format("item {} is {}; allowed: a list of texts", i + 1, ShownValue(item)));
    }
    texts.push_back(item.text);
  }
  out = std::move(texts);
  return {};
}

Status SettingsReader::NumbersOf(const ConfigValue& item, std::string_view key, size_t index,
                                 int64_t& first, int64_t& last) const {
  const auto complain = [&](std::string_view why) {
    return Error(item, key,
                 fmt::format("item {} is {}{}; {}", index + 1, ShownValue(item), why, kNumberRule));
  };
  if (item.kind == ConfigKind::kInt) {
    first = last = item.integer;
  } else if (item.kind == ConfigKind::kText) {
    const std::string_view text = item.text;
    const size_t hyphen = text.find('-');
    const std::optional<int64_t> left = Digits(text.substr(0, hyphen));
    const std::optional<int64_t> right =
        hyphen == std::string_view::npos ? left : Digits(text.substr(hyphen + 1));
    if (!left || !right) {
      return complain("");
    }
    if (*left > *right) {
      return complain(", and begins after its end");
    }
    first = *left;
    last = *right;
  } else {
    return complain("");
  }
  if (first < 0 || last > kLargestNumber) {
    return complain("");
  }
  return {};
}

Status SettingsReader::NumberSet(std::string_view key, std::vector<int64_t>& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kList) {
    return Error(*value, key, fmt::format("is {}; allowed: a list", ShownValue(*value)));
  }
  if (value->items.size() > kMostItems) {
    return Error(*value, key, fmt::format("has more than {} items", kMostItems));
  }
  // Ranges are counted by their ends: a million ranges of a million numbers cost two passes, not a
  // million million insertions.
  std::vector<int64_t> opened_minus_closed(value->items.empty() ? 0 : kLargestNumber + 2);
  for (size_t i = 0; i < value->items.size(); ++i) {
    int64_t first = 0;
    int64_t last = 0;
    MSP_RETURN_IF_ERROR(NumbersOf(value->items[i], key, i, first, last));
    ++opened_minus_closed[static_cast<size_t>(first)];
    --opened_minus_closed[static_cast<size_t>(last) + 1];
  }
  out.clear();
  int64_t open = 0;
  for (size_t number = 0; number < opened_minus_closed.size(); ++number) {
    open += opened_minus_closed[number];
    if (open > 0) {
      out.push_back(static_cast<int64_t>(number));
    }
  }
  return {};
}

Status SettingsReader::OneOf(std::string_view key, std::span<const std::string_view> names,
                             std::string_view& out) const {
  const ConfigValue* value = Find(key);
  if (value == nullptr || (value->kind == ConfigKind::kText && value->text.empty())) {
    return {};
  }
  const auto found = std::find(names.begin(), names.end(), std::string_view(value->text));
  if (value->kind == ConfigKind::kText && found != names.end()) {
    out = *found;
    return {};
  }
  const std::vector<std::string> allowed(names.begin(), names.end());
  Status error =
      Error(*value, key,
            fmt::format("is {}; allowed: {}", ShownValue(*value), base::Join(allowed, ", ")));
  if (const auto nearest = base::NearestMatch(value->text, allowed)) {
    return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
  }
  return error;
}

}  // namespace msprobe::json
