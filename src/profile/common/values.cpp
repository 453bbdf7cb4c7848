#include "src/profile/common/values.h"

#include <algorithm>
#include <charconv>

#include "src/base/strings.h"

namespace msprobe::profile {

std::string WithoutAddresses(std::string_view name) {
  constexpr std::string_view kAddress = " at 0x";
  std::string result;
  for (size_t at = name.find(kAddress); at != std::string_view::npos; at = name.find(kAddress)) {
    result += name.substr(0, at);
    name.remove_prefix(at + kAddress.size());
    name.remove_prefix(std::min(name.find_first_not_of("0123456789abcdefABCDEF"), name.size()));
  }
  result += name;
  return result;
}

TextId Texts::Intern(std::string_view text) {
  if (text.empty()) {
    return kNoText;
  }
  const auto id = static_cast<TextId>(texts_.size());
  const TextId known = index_.FindOrAdd(std::hash<std::string_view>()(text), id,
                                        [&](uint32_t entry) { return texts_[entry] == text; });
  if (known == id) {
    texts_.push_back(arena_.Keep(text));
  }
  return known;
}

TextId Texts::Find(std::string_view text) const {
  const uint32_t known = index_.Find(std::hash<std::string_view>()(text),
                                     [&](uint32_t entry) { return texts_[entry] == text; });
  return known == base::HashIndex::kNone ? kNoText : known;
}

namespace {

constexpr int64_t kPlaces = 3;              // of a nanosecond behind a microsecond's point
constexpr int64_t kLargestExponent = 1000;  // no time needs more; keeps sums of exponents small
constexpr uint64_t kLimit = INT64_MAX;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes "e+05" from the end of `text`; false when it is malformed.
bool TakeExponent(std::string_view& text, int64_t& exponent) {
  const size_t mark = text.find_first_of("eE");
  if (mark == std::string_view::npos) {
    return true;
  }
  std::string_view digits = text.substr(mark + 1);
  text = text.substr(0, mark);
  if (!digits.empty() && digits.front() == '+') {
    digits.remove_prefix(1);
    if (!digits.empty() && digits.front() == '-') {
      return false;
    }
  }
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  return end.ec == std::errc() && end.ptr == digits.data() + digits.size() &&
         exponent >= -kLargestExponent && exponent <= kLargestExponent;
}

// The spelling that profilers use: at most 16 digits in front of the point and three behind, which
// fit in 64 bits.
std::optional<Nanoseconds> ParsePlain(std::string_view text) {
  constexpr size_t kLongestInFront = 16;
  uint64_t value = 0;
  size_t in_front = 0;
  size_t at = 0;
  for (; at < text.size() && IsDigit(text[at]); ++at) {
    value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    if (++in_front > kLongestInFront) {
      return std::nullopt;
    }
  }
  if (in_front == 0) {
    return std::nullopt;
  }
  int64_t behind = 0;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && IsDigit(text[at]) && behind < kPlaces; ++at, ++behind) {
      value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    }
  }
  for (; behind < kPlaces; ++behind) {
    value *= 10;
  }
  return at == text.size() && value <= kLimit ? std::optional(static_cast<Nanoseconds>(value))
                                              : std::nullopt;
}

}  // namespace

std::optional<Nanoseconds> ParseMicroseconds(std::string_view text) {
  if (const std::optional<Nanoseconds> plain = ParsePlain(text)) {
    return plain;
  }
  text = base::Trim(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  int64_t exponent = 0;
  if (!TakeExponent(text, exponent)) {
    return std::nullopt;
  }
  const size_t point = std::min(text.find('.'), text.size());
  const size_t digits = text.size() - (point < text.size() ? 1 : 0);
  if (digits == 0) {
    return std::nullopt;
  }
  // Digits in front of the place of a nanosecond are kept, the next one rounds.
  const int64_t kept = static_cast<int64_t>(point) + kPlaces + exponent;
  uint64_t value = 0;
  int64_t place = 0;
  bool round_up = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (at == point) {
      continue;
    }
    if (!IsDigit(c)) {
      return std::nullopt;
    }
    const auto digit = static_cast<uint64_t>(c - '0');
    if (place < kept) {
      if (value > (kLimit - digit) / 10) {
        return std::nullopt;
      }
      value = value * 10 + digit;
    } else if (place == kept) {
      round_up = digit >= 5;
    }
    ++place;
  }
  for (; place < kept && value != 0; ++place) {
    if (value > kLimit / 10) {
      return std::nullopt;
    }
    value *= 10;
  }
  value += round_up ? 1 : 0;
  if (value > kLimit) {
    return std::nullopt;
  }
  const auto result = static_cast<int64_t>(value);
  return negative ? -result : result;
}

}  // namespace msprobe::profile
