#include "src/json/config.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/tree_builder.h"

namespace msprobe::json {

struct Config::Contents {
  Json root;
  std::string spellings;
  std::vector<std::pair<const Json*, internal::Note>> notes;  // sorted by address

  ~Contents() { TakeApart(root); }

  const internal::Note* Find(const Json& value) const {
    const auto found = std::lower_bound(
        notes.begin(), notes.end(), &value,
        [](const auto& note, const Json* at) { return std::less<const Json*>()(note.first, at); });
    return found == notes.end() || found->first != &value ? nullptr : &found->second;
  }
};

namespace {

// Every value in document order. Nested as deep as the parser allows.
void Collect(const Json& value, std::vector<const Json*>& values) {
  values.push_back(&value);
  if (value.is_structured()) {
    for (const Json& child : value) {
      Collect(child, values);
    }
  }
}

internal::Tree EmptyObject() {
  internal::Tree tree;
  tree.root = Json::object();
  tree.notes.emplace_back();
  return tree;
}

}  // namespace

Config::Config(std::string file_name) : Config(std::move(file_name), EmptyObject()) {}

Config::Config(std::string file_name, internal::Tree tree) : file(std::move(file_name)) {
  auto contents = std::make_shared<Contents>();
  contents->root = std::move(tree.root);
  contents->spellings = std::move(tree.spellings);
  std::vector<const Json*> values;
  Collect(contents->root, values);
  for (size_t i = 0; i < std::min(values.size(), tree.notes.size()); ++i) {
    contents->notes.emplace_back(values[i], tree.notes[i]);
  }
  std::sort(contents->notes.begin(), contents->notes.end(), [](const auto& a, const auto& b) {
    return std::less<const Json*>()(a.first, b.first);
  });
  contents_ = std::move(contents);
}

const Json& Config::root() const { return contents_->root; }

int Config::LineOf(const Json& value) const {
  const internal::Note* const note = contents_->Find(value);
  return note == nullptr ? 0 : note->line;
}

std::string_view Config::SpellingOf(const Json& value) const {
  const internal::Note* const note = contents_->Find(value);
  return value.is_string() || note == nullptr
             ? std::string_view(TextOf(value))
             : std::string_view(contents_->spellings).substr(note->spelling, note->spelling_size);
}

Status Config::ErrorAt(const Json& value, std::string_view key, std::string_view complaint) const {
  return UsageError(fmt::format("{} line {}: {}{}", file, LineOf(value),
                                key.empty() ? "" : fmt::format("key \"{}\": ", key), complaint));
}

namespace {

// With the valid key that the user may have meant as the hint, or all of them behind `list_title`.
Status WithNearKey(Status error, std::string_view key, std::span<const std::string> valid,
                   std::string_view list_title) {
  const auto nearest = base::NearestMatch(key, valid);
  return std::move(error).WithHint(
      nearest ? fmt::format("did you mean \"{}\"?", *nearest)
              : fmt::format("{}: {}", list_title, base::Join(valid, ", ")));
}

}  // namespace

Status UnknownKeyError(const SettingsReader& reader, const Json& value, std::string_view key,
                       std::span<const std::string> valid) {
  return WithNearKey(reader.Error(value, key, "no such key"), key, valid, "valid here");
}

Status Config::CheckKeys(const Json& object, std::span<const std::string> valid) const {
  if (!object.is_object()) {
    return {};
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(valid.begin(), valid.end(), key) != valid.end()) {
      continue;
    }
    return WithNearKey(ErrorAt(value, key, "no such key"), key, valid, "valid keys");
  }
  return {};
}

namespace {

Status WrongKind(const Config& config, const Json& value, std::string_view key,
                 std::string_view wanted) {
  return config.ErrorAt(value, key, fmt::format("must be {}, not {}", wanted, KindName(value)));
}

// The items of a list of one kind, which `take` reads; false from it: an item of another kind.
template <typename Item, typename Take>
Result<std::vector<Item>> ListOf(const Config& config, const Json& object, std::string_view key,
                                 std::string_view kind, std::string_view item_kind, Take take) {
  std::vector<Item> items;
  const Json* value = FindGiven(object, key);
  if (value == nullptr) {
    return items;
  }
  if (!value->is_array()) {
    return WrongKind(config, *value, key, kind);
  }
  for (const Json& item : *value) {
    if (!take(item, items)) {
      return config.ErrorAt(
          item, key, fmt::format("every item must be {}, not {}", item_kind, KindName(item)));
    }
  }
  return items;
}

}  // namespace

Result<std::string> Config::Text(const Json& object, std::string_view key,
                                 std::string_view fallback) const {
  const Json* value = FindGiven(object, key);
  if (value == nullptr) {
    return std::string(fallback);
  }
  if (!value->is_string()) {
    return WrongKind(*this, *value, key, "text");
  }
  return TextOf(*value);
}

Result<std::string> Config::RequiredText(const Json& object, std::string_view key) const {
  if (FindGiven(object, key) == nullptr) {
    return ErrorAt(object, key, "is missing");
  }
  return Text(object, key, "");
}

Result<bool> Config::Bool(const Json& object, std::string_view key, bool fallback) const {
  const Json* value = FindGiven(object, key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    return WrongKind(*this, *value, key, "true or false");
  }
  return BoolOf(*value);
}

Result<std::vector<int64_t>> Config::IntList(const Json& object, std::string_view key) const {
  return ListOf<int64_t>(*this, object, key, "a list of integers", "an integer",
                         [](const Json& item, std::vector<int64_t>& items) {
                           items.push_back(IntOf(item));
                           return item.is_number_integer();
                         });
}

Result<std::vector<std::string>> Config::TextList(const Json& object, std::string_view key) const {
  return ListOf<std::string>(*this, object, key, "a list of texts", "text",
                             [](const Json& item, std::vector<std::string>& items) {
                               items.push_back(TextOf(item));
                               return item.is_string();
                             });
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

std::string ShownValue(const Json& value) {
  if (value.is_string()) {
    const std::string_view text = TextOf(value);
    return fmt::format("\"{}{}\"", base::Printable(text.substr(0, kShownCharacters)),
                       text.size() <= kShownCharacters ? "" : "...");
  }
  return value.is_null() || value.is_structured() ? std::string(KindName(value))
         : value.is_number_float()                ? base::PythonFloatRepr(NumberOf(value))
                                   : DocumentText(value, -1, Writer::NonFinite::kPython);
}

const Json* SettingsReader::Find(std::string_view key) const { return FindGiven(object_, key); }

Status SettingsReader::Error(const Json& value, std::string_view key,
                             std::string_view complaint) const {
  return config_.ErrorAt(
      value, section_.empty() ? std::string(key) : fmt::format("{}.{}", section_, key), complaint);
}

Status SettingsReader::Bool(std::string_view key, bool& out) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_boolean()) {
    return Error(*value, key, fmt::format("is {}; allowed: true, false", ShownValue(*value)));
  }
  out = BoolOf(*value);
  return {};
}

Status SettingsReader::Int(std::string_view key, int64_t least, int64_t most, int64_t& out) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_number_integer() || IntOf(*value) < least || IntOf(*value) > most) {
    return Error(
        *value, key,
        fmt::format("is {}; allowed: integers from {} to {}", ShownValue(*value), least, most));
  }
  out = IntOf(*value);
  return {};
}

Status SettingsReader::Text(std::string_view key, std::string& out) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_string()) {
    return Error(*value, key, fmt::format("is {}; allowed: a text", ShownValue(*value)));
  }
  out = TextOf(*value);
  return {};
}

Status SettingsReader::TextList(std::string_view key, std::vector<std::string>& out) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    return Error(*value, key, fmt::format("is {}; allowed: a list of texts", ShownValue(*value)));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    if (!item.is_string()) {
      return Error(item, key,
                   fmt::format("item {} is {}; allowed: a list of texts", i + 1, ShownValue(item)));
    }
    texts.push_back(TextOf(item));
  }
  out = std::move(texts);
  return {};
}

Status SettingsReader::NumbersOf(const Json& item, std::string_view key, size_t index,
                                 int64_t& first, int64_t& last) const {
  const auto complain = [&](std::string_view why) {
    return Error(item, key,
                 fmt::format("item {} is {}{}; {}", index + 1, ShownValue(item), why, kNumberRule));
  };
  if (item.is_number_integer()) {
    first = last = IntOf(item);
  } else if (item.is_string()) {
    const std::string_view text = TextOf(item);
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
  const Json* value = Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    return Error(*value, key, fmt::format("is {}; allowed: a list", ShownValue(*value)));
  }
  if (value->size() > kMostItems) {
    return Error(*value, key, fmt::format("has more than {} items", kMostItems));
  }
  // Ranges are counted by their ends: a million ranges of a million numbers cost two passes, not a
  // million million insertions.
  std::vector<int64_t> opened_minus_closed(value->empty() ? 0 : kLargestNumber + 2);
  for (size_t i = 0; i < value->size(); ++i) {
    int64_t first = 0;
    int64_t last = 0;
    MSP_RETURN_IF_ERROR(NumbersOf((*value)[i], key, i, first, last));
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
  const Json* value = Find(key);
  if (value == nullptr || (value->is_string() && TextOf(*value).empty())) {
    return {};
  }
  const auto found = std::find(names.begin(), names.end(), std::string_view(TextOf(*value)));
  if (value->is_string() && found != names.end()) {
    out = *found;
    return {};
  }
  const std::vector<std::string> allowed(names.begin(), names.end());
  Status error =
      Error(*value, key,
            fmt::format("is {}; allowed: {}", ShownValue(*value), base::Join(allowed, ", ")));
  if (const auto nearest = base::NearestMatch(config_.SpellingOf(*value), allowed)) {
    return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
  }
  return error;
}

}  // namespace msprobe::json
