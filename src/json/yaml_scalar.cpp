#include "src/json/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::json::internal {
namespace {

// The three spellings YAML 1.1 allows: lower, Capital, UPPER.
bool IsWord(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) {
    return false;
  }
  const auto upper_at = [&](size_t at) { return static_cast<char>(lower[at] - 'a' + 'A'); };
  bool all_upper = true;
  bool tail_lower = true;
  for (size_t at = 0; at < text.size(); ++at) {
    all_upper &= text[at] == upper_at(at);
    tail_lower &= at == 0 || text[at] == lower[at];
  }
  return all_upper || (tail_lower && (text[0] == lower[0] || text[0] == upper_at(0)));
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return IsWord(text, word); });
}

struct Unsigned {
  bool negative = false;
  std::string digits;  // without sign and underscores
};

Unsigned StripSign(std::string_view text) {
  Unsigned number;
  if (text.starts_with('-') || text.starts_with('+')) {
    number.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  // An underscore may stand between digits, never in front.
  if (text.empty() || text.front() == '_') {
    return number;
  }
  std::copy_if(text.begin(), text.end(), std::back_inserter(number.digits),
               [](char c) { return c != '_'; });
  return number;
}

// The base that the digits announce, with their prefix removed; 0 when they are no integer.
int TakeBase(std::string& digits) {
  int base = 10;
  if (digits.starts_with("0b")) {
    base = 2;
    digits.erase(0, 2);
  } else if (digits.starts_with("0x")) {
    base = 16;
    digits.erase(0, 2);
  } else if (digits.size() > 1 && digits.front() == '0') {
    base = 8;
    digits.erase(0, 1);
  }
  const auto fits = [base](char c) {
    return base == 16 ? std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos
                      : c >= '0' && c < '0' + base;
  };
  return !digits.empty() && std::all_of(digits.begin(), digits.end(), fits) ? base : 0;
}

std::optional<ConfigValue> AsInteger(std::string_view text) {
  Unsigned number = StripSign(text);
  const int radix = TakeBase(number.digits);
  if (radix == 0) {
    return std::nullopt;
  }
  ConfigValue value;
  value.text = text;
  const std::string signed_digits = (number.negative ? "-" : "") + number.digits;
  const char* end = signed_digits.data() + signed_digits.size();
  if (std::from_chars(signed_digits.data(), end, value.integer, radix).ec == std::errc()) {
    value.kind = ConfigKind::kInt;
    value.number = static_cast<double>(value.integer);
    return value;
  }
  value.kind = ConfigKind::kFloat;
  value.integer = 0;
  if (radix == 10) {
    value.number = base::ParseDouble(number.digits).value_or(0);
  } else {
    for (const char digit : number.digits) {
      const int place = base::IsDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10;
      value.number = value.number * radix + place;
    }
  }
  value.number = number.negative ? -value.number : value.number;
  return value;
}

std::optional<ConfigValue> AsFloat(std::string_view text) {
  const Unsigned number = StripSign(text);
  std::string_view digits = number.digits;
  ConfigValue value;
  value.kind = ConfigKind::kFloat;
  value.text = text;
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    value.number = std::numeric_limits<double>::infinity();
  } else if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value.number = std::numeric_limits<double>::quiet_NaN();
  } else {
    // YAML 1.1 wants a point ("1e5" is text there); "1.e5" without a sign in the exponent is taken
    // as Python would.
    const bool numeric = std::all_of(digits.begin(), digits.end(), [](char c) {
      return base::IsDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+';
    });
    const bool has_digit = std::any_of(digits.begin(), digits.end(), base::IsDigit);
    if (!numeric || !has_digit || digits.find('.') == std::string_view::npos ||
        !(base::IsDigit(digits.front()) || digits.front() == '.')) {
      return std::nullopt;
    }
    const std::optional<double> parsed = base::ParseDouble(digits);
    if (!parsed) {
      return std::nullopt;
    }
    value.number = *parsed;
  }
  value.number = number.negative ? -value.number : value.number;
  return value;
}

// The digits between colons of "12:30:45.5", all but the first below 60; empty: nothing of the
// kind.
std::vector<std::string_view> Base60Parts(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  std::vector<std::string_view> parts = base::Split(text, ':');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const std::string_view digits = i + 1 == parts.size() ? part.substr(0, part.find('.')) : part;
    const bool numeric = !digits.empty() && base::IsDigit(digits[0]) &&
                         std::all_of(digits.begin(), digits.end(), [i](char c) {
                           return base::IsDigit(c) || (i == 0 && c == '_');
                         });
    const bool fits = i == 0 || digits.size() == 1 || (digits.size() == 2 && digits[0] < '6');
    if (!numeric || !fits) {
      return {};
    }
  }
  return parts.size() > 1 ? parts : std::vector<std::string_view>();
}

// "12:30" is 750.
std::optional<ConfigValue> AsBase60(std::string_view text) {
  const std::vector<std::string_view> parts = Base60Parts(text);
  if (parts.empty()) {
    return std::nullopt;
  }
  ConfigValue value;
  value.text = text;
  const std::string_view last = parts.back();
  const bool is_float = last.find('.') != std::string_view::npos;
  if (!is_float && parts[0][0] == '0') {
    return std::nullopt;
  }
  double number = 0;
  for (const std::string_view part : parts) {
    const Unsigned digits = StripSign(part);
    const std::optional<double> parsed = base::ParseDouble(digits.digits);
    if (!parsed) {
      return std::nullopt;
    }
    number = number * 60 + *parsed;
  }
  value.number = text.starts_with('-') ? -number : number;
  constexpr double kExact = 9007199254740992.0;
  value.kind = is_float || number > kExact ? ConfigKind::kFloat : ConfigKind::kInt;
  value.integer = value.kind == ConfigKind::kInt ? static_cast<int64_t>(value.number) : 0;
  return value;
}

// 2024-01-31, or with a time behind it.
bool IsTimestamp(std::string_view text) {
  const auto takes_digits = [&text](size_t least, size_t most) {
    size_t count = 0;
    while (count < most && count < text.size() && base::IsDigit(text[count])) {
      ++count;
    }
    text.remove_prefix(count);
    return count >= least;
  };
  const auto takes = [&text](char c) {
    const bool there = text.starts_with(c);
    text.remove_prefix(there ? 1 : 0);
    return there;
  };
  const bool full_date = text.size() == 10;
  if (!takes_digits(4, 4) || !takes('-') || !takes_digits(full_date ? 2 : 1, 2) || !takes('-') ||
      !takes_digits(full_date ? 2 : 1, 2)) {
    return false;
  }
  if (text.empty()) {
    return full_date;
  }
  const size_t gap = text.find_first_not_of(" \t");
  if (gap == 0 && !takes('T') && !takes('t')) {
    return false;
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (!takes_digits(1, 2) || !takes(':') || !takes_digits(2, 2) || !takes(':') ||
      !takes_digits(2, 2)) {
    return false;
  }
  if (takes('.')) {
    takes_digits(0, text.size());
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.empty() || text == "Z") {
    return true;
  }
  return (takes('-') || takes('+')) && takes_digits(1, 2) &&
         (text.empty() || (takes(':') && takes_digits(2, 2) && text.empty()));
}

}  // namespace

ConfigValue ResolvePlainData(std::string_view text) {
  if (std::optional<ConfigValue> number = AsBase60(text)) {
    return *std::move(number);
  }
  ConfigValue value = ResolvePlainScalar(text);
  const size_t exponent = text.find_first_of("eE");
  const bool unsigned_exponent = value.kind == ConfigKind::kFloat &&
                                 exponent != std::string_view::npos && text.find('.') < exponent &&
                                 exponent + 1 < text.size() && base::IsDigit(text[exponent + 1]);
  if (unsigned_exponent) {
    value = ConfigValue();
    value.kind = ConfigKind::kText;
    value.text = text;
  }
  value.is_typed_text = value.kind == ConfigKind::kText && IsTimestamp(text);
  return value;
}

ConfigValue ResolvePlainScalar(std::string_view text) {
  ConfigValue value;
  value.text = text;
  if (text.empty() || text == "~" || IsWord(text, "null")) {
    return value;
  }
  if (IsOneOf(text, {"true", "yes", "on"}) || IsOneOf(text, {"false", "no", "off"})) {
    value.kind = ConfigKind::kBool;
    value.boolean = IsOneOf(text, {"true", "yes", "on"});
    return value;
  }
  if (std::optional<ConfigValue> integer = AsInteger(text)) {
    return *std::move(integer);
  }
  if (std::optional<ConfigValue> number = AsFloat(text)) {
    return *std::move(number);
  }
  value.kind = ConfigKind::kText;
  return value;
}

}  // namespace msprobe::json::internal
