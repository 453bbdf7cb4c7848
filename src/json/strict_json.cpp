#include "src/json/strict_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace msprobe::json::internal {
namespace {

// A bare word, and a number that is as long.
struct Word {
  std::string_view name;
  std::string_view number;
};
constexpr std::array<Word, 3> kNonFinite = {Word{"NaN", "0.0"}, Word{"Infinity", "0.000000"},
                                            Word{"-Infinity", "-0.000000"}};

constexpr size_t kEscapeLength = 6;  // of "\u0041"

class StrictWalk {
 public:
  StrictWalk(std::string_view text, TreeUse use) : text_(text), use_(use), strict_(text) {}

  std::string Run() && {
    while (at_ < text_.size()) {
      Step();
    }
    return std::move(strict_);
  }

 private:
  static constexpr size_t kNowhere = std::string_view::npos;

  void Step() {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      ++at_;
      return;
    }
    if (c == '/' && Comment()) {
      return;
    }
    // A comma is a trailing one if a value stands in front of it and a closing bracket behind it.
    constexpr std::string_view kNoValue = "[{,:";
    if ((c == ']' || c == '}') && comma_ != kNowhere) {
      strict_[comma_] = ' ';
    }
    comma_ = c == ',' && kNoValue.find(last_) == std::string_view::npos ? at_ : kNowhere;
    last_ = c;
    if (c == '"') {
      Text();
    } else if (c == '\0') {
      strict_[at_++] = '\x01';
    } else if (!NonFinite()) {
      ++at_;
    }
  }

  // False: none begins here, or it has no end.
  bool Comment() {
    const std::string_view rest = text_.substr(at_);
    size_t length = 0;
    if (rest.starts_with("//")) {
      length = std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*") && !no_comment_ends_) {
      const size_t end = rest.find("*/", 2);
      length = end == kNowhere ? 0 : end + 2;
      no_comment_ends_ = end == kNowhere;
    }
    const auto begin = strict_.begin() + static_cast<std::ptrdiff_t>(at_);
    std::replace_if(
        begin, begin + static_cast<std::ptrdiff_t>(length), [](char c) { return c != '\n'; }, ' ');
    at_ += length;
    return length > 0;
  }

  bool NonFinite() {
    for (const Word& word : kNonFinite) {
      if (text_.substr(at_).starts_with(word.name)) {
        strict_.replace(at_, word.number.size(), word.number);
        at_ += word.name.size();
        return true;
      }
    }
    return false;
  }

  // From the opening quote to behind the closing one.
  void Text() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        ++at_;
      } else if (const std::optional<uint32_t> unit = Unit(at_)) {
        Escape(*unit);
      } else {
        at_ += 2;
      }
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  // What "\uXXXX" at this place stands for, if it stands there.
  std::optional<uint32_t> Unit(size_t place) const {
    const std::string_view escape = text_.substr(std::min(place, text_.size()), kEscapeLength);
    uint32_t unit = 0;
    if (escape.size() < kEscapeLength || !escape.starts_with("\\u") ||
        std::from_chars(escape.data() + 2, escape.data() + kEscapeLength, unit, 16).ptr !=
            escape.data() + kEscapeLength) {
      return std::nullopt;
    }
    return unit;
  }

  void Escape(uint32_t unit) {
    const bool is_half = unit >= 0xD800 && unit < 0xE000;
    const std::optional<uint32_t> next = Unit(at_ + kEscapeLength);
    const bool is_pair = is_half && unit < 0xDC00 && next && *next >= 0xDC00 && *next < 0xE000;
    if (is_half && !is_pair && use_ == TreeUse::kData) {
      strict_.replace(at_, kEscapeLength, "\\ufffd");
    }
    at_ += is_pair ? 2 * kEscapeLength : kEscapeLength;
  }

  const std::string_view text_;
  const TreeUse use_;
  std::string strict_;
  bool no_comment_ends_ = false;  // from here on: a search for the end is not made again
  size_t at_ = 0;
  size_t comma_ = kNowhere;  // where one stands, if nothing but blanks and comments followed yet
  char last_ = ',';          // the last byte outside of texts that was neither blank nor comment
};

}  // namespace

std::string StrictJson(std::string_view text, TreeUse use) { return StrictWalk(text, use).Run(); }

}  // namespace msprobe::json::internal
