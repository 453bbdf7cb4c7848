#include "src/json/config.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::json::internal {

bool TreeBuilder::Fail(int line, std::string_view complaint) {
  if (status_.ok()) {
    status_ = BadFormatError(fmt::format("line {}: {}", line, complaint));
  }
  return false;
}

bool TreeBuilder::Count(size_t nodes, int line) {
  if (nodes > kConfigNodes - nodes_) {
    return Fail(line, fmt::format("more than {} values", kConfigNodes));
  }
  nodes_ += nodes;
  return true;
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().value.kind == ConfigKind::kObject && !open_.back().has_key;
}

bool TreeBuilder::Add(ConfigValue value) {
  return !failed() && Count(1, value.line) && Place(std::move(value));
}

bool TreeBuilder::Place(ConfigValue value) {
  if (open_.empty()) {
    root_ = std::move(value);
    last_ = &root_;
    return true;
  }
  Level& parent = open_.back();
  if (parent.value.kind == ConfigKind::kList) {
    parent.value.items.push_back(std::move(value));
    last_ = &parent.value.items.back();
    return true;
  }
  if (parent.is_merge) {
    return PlaceMerged(parent, std::move(value));
  }
  value.key_kind = parent.key_kind;
  parent.value.members.emplace_back(std::move(parent.key), std::move(value));
  parent.key_lines.push_back(parent.key_line);
  parent.has_key = false;
  last_ = &parent.value.members.back().second;
  return true;
}

bool TreeBuilder::PlaceMerged(Level& level, ConfigValue value) {
  const int line = level.key_line;
  level.has_key = false;
  level.is_merge = false;
  std::vector<ConfigValue> objects;
  if (value.kind == ConfigKind::kList) {
    // Of several objects the first counts.
    objects.assign(std::make_move_iterator(value.items.rbegin()),
                   std::make_move_iterator(value.items.rend()));
  } else {
    objects.push_back(std::move(value));
  }
  for (ConfigValue& object : objects) {
    if (object.kind != ConfigKind::kObject) {
      return Fail(line, "the value of << must be a mapping");
    }
    level.merged.push_back(std::move(object));
  }
  last_ = nullptr;
  return true;
}

bool TreeBuilder::Begin(ConfigKind kind, int line, size_t end) {
  if (failed() || !Count(1, line)) {
    return false;
  }
  if (open_.size() >= static_cast<size_t>(kConfigDepth)) {
    return Fail(line, fmt::format("more than {} nested levels", kConfigDepth));
  }
  Level& level = open_.emplace_back();
  level.value.kind = kind;
  level.value.line = line;
  level.value.end = end;
  return true;
}

bool TreeBuilder::MergeKey(int line) {
  if (!Key("<<", line)) {
    return false;
  }
  open_.back().is_merge = true;
  return true;
}

void TreeBuilder::KeepLastMembers(Level& level) {
  std::vector<std::pair<std::string, ConfigValue>> kept;
  std::unordered_map<std::string, size_t> places;
  const auto take = [&](std::vector<std::pair<std::string, ConfigValue>>& members) {
    for (auto& [key, value] : members) {
      const auto [place, is_new] = places.emplace(key, kept.size());
      if (is_new) {
        kept.emplace_back(std::move(key), std::move(value));
      } else {
        kept[place->second].second = std::move(value);
      }
    }
  };
  for (ConfigValue& object : level.merged) {
    take(object.members);
  }
  take(level.value.members);
  level.value.members = std::move(kept);
}

bool TreeBuilder::Key(std::string key, int line, ConfigKind kind) {
  if (failed()) {
    return false;
  }
  Level& level = open_.back();
  level.key = std::move(key);
  level.key_line = line;
  level.key_kind = kind;
  level.has_key = true;
  return true;
}

bool TreeBuilder::CheckDuplicates(const Level& level) {
  const auto& members = level.value.members;
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&members](size_t left, size_t right) {
    return members[left].first < members[right].first;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (members[order[i]].first == members[order[i - 1]].first) {
      return Fail(level.key_lines[order[i]],
                  fmt::format("key \"{}\": already given on line {}", members[order[i]].first,
                              level.key_lines[order[i - 1]]));
    }
  }
  return true;
}

bool TreeBuilder::End() {
  if (failed()) {
    return false;
  }
  Level level = std::move(open_.back());
  open_.pop_back();
  if (use_ == TreeUse::kData) {
    KeepLastMembers(level);
  } else if (!CheckDuplicates(level)) {
    return false;
  }
  return Place(std::move(level.value));
}

}  // namespace msprobe::json::internal

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
