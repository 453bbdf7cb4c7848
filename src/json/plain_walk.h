// A quick way over the JSON that dumps are mostly made of, for readers that want a few values out
// of very many small documents. ParseStream judges all that is unusual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/json/text_runs.h"

namespace msprobe::json {
namespace internal {

template <typename Events>
class PlainWalk {
 public:
  PlainWalk(std::string_view text, Events& events)
      : at_(text.data()), end_(text.data() + text.size()), events_(events) {}

  // The last byte is a bracket, which ends numbers, words and blanks. So only who goes past a
  // bracket, or over a text, where a bracket means nothing, has to ask whether there is more.
  bool Run() {
    if (end_ - at_ < 2 || *at_ != '{' || end_[-1] != '}') {
      return false;
    }
    do {
      if (!Value() || !Next()) {
        return false;
      }
      if constexpr (requires { events_.stopped(); }) {
        if (events_.stopped()) {
          return true;
        }
      }
    } while (depth_ > 0);
    return at_ == end_;
  }

 private:
  // For events that know OnPlace(at): `at` is the bracket that an object or a list begins with, or
  // the place behind the one it ends with, whose event comes next.
  void TellPlace(const char* at) {
    if constexpr (requires { events_.OnPlace(at); }) {
      events_.OnPlace(at);
    }
  }

  static constexpr unsigned kDeepest = 64;  // one bit each
  static constexpr std::ptrdiff_t kLongestNumber = 32;

  bool in_object() const { return (objects_ & 1U) != 0; }
  bool IsAt(char c) const { return *at_ == c; }
  bool IsAtClosing() const { return IsAt(in_object() ? '}' : ']'); }

  // From the beginning of a value to behind the first that is no container or an empty one, which
  // is left open.
  bool Value() {
    while (IsAt('{') || IsAt('[')) {
      if (!Open()) {
        return false;
      }
      if (IsAtClosing()) {
        return true;
      }
      if (in_object() && !Key()) {
        return false;
      }
    }
    return Scalar();
  }

  // From behind a value to the next one, or behind the last.
  bool Next() {
    while (depth_ > 0) {
      if (at_ == end_) {
        return false;
      }
      at_ = SkipBlanks(at_, end_);
      if (IsAt(',')) {
        at_ = SkipBlanks(at_ + 1, end_);
        return !in_object() || Key();
      }
      if (!IsAtClosing()) {
        return false;
      }
      Close();
    }
    return true;
  }

  bool Open() {
    if (depth_ == kDeepest) {
      return false;
    }
    const bool is_object = *at_ == '{';
    TellPlace(at_);
    is_object ? events_.OnBeginObject() : events_.OnBeginArray();
    objects_ = objects_ << 1U | (is_object ? 1U : 0U);
    ++depth_;
    at_ = SkipBlanks(at_ + 1, end_);
    return true;
  }

  void Close() {
    TellPlace(at_ + 1);
    in_object() ? events_.OnEndObject() : events_.OnEndArray();
    objects_ >>= 1U;
    --depth_;
    ++at_;
  }

  // From a key to the value behind it.
  bool Key() {
    std::string_view key;
    if (!IsAt('"') || !Text(key)) {
      return false;
    }
    events_.OnKey(key);
    at_ = SkipBlanks(at_, end_);
    if (!IsAt(':')) {
      return false;
    }
    at_ = SkipBlanks(at_ + 1, end_);
    return true;
  }

  bool Scalar() {
    switch (*at_) {
      case '"': {
        std::string_view text;
        if (!Text(text)) {
          return false;
        }
        events_.OnText(text);
        return true;
      }
      case 't':
        if (!Word("true")) {
          return false;
        }
        events_.OnBool(true);
        return true;
      case 'f':
        if (!Word("false")) {
          return false;
        }
        events_.OnBool(false);
        return true;
      case 'n':
        if (!Word("null")) {
          return false;
        }
        events_.OnNull();
        return true;
      default:
        return Number();
    }
  }

  // A text without escapes; `at_` is its quote.
  bool Text(std::string_view& text) {
    const char* const begin = at_ + 1;
    at_ = EndOfPlainRun(begin, end_);
    text = std::string_view(begin, static_cast<size_t>(at_ - begin));
    if (at_ == end_ || !IsAt('"')) {
      return false;
    }
    ++at_;
    return true;
  }

  bool Word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  bool Digits() {
    const char* const begin = at_;
    while (*at_ >= '0' && *at_ <= '9') {
      ++at_;
    }
    return at_ != begin;
  }

  bool Number() {
    const char* const begin = at_;
    at_ += *at_ == '-' ? 1 : 0;
    const char* const digits = at_;
    if (IsAt('I') || IsAt('N')) {
      if (!Word("Infinity") && (at_ != begin || !Word("NaN"))) {
        return false;
      }
    } else if (!Digits() || (*digits == '0' && at_ - digits > 1) || !Fraction() || !Exponent() ||
               at_ - begin > kLongestNumber) {
      return false;
    }
    events_.OnNumber(std::string_view(begin, static_cast<size_t>(at_ - begin)));
    return true;
  }

  bool Fraction() {
    if (!IsAt('.')) {
      return true;
    }
    ++at_;
    return Digits();
  }

  // Of at most two digits: no number is beyond what a double holds.
  bool Exponent() {
    if (!IsAt('e') && !IsAt('E')) {
      return true;
    }
    ++at_;
    at_ += IsAt('+') || IsAt('-') ? 1 : 0;
    const char* const digits = at_;
    return Digits() && at_ - digits <= 2;
  }

  const char* at_;
  const char* const end_;
  Events& events_;
  uint64_t objects_ = 0;  // bit 0 speaks of the innermost open container
  unsigned depth_ = 0;
};

}  // namespace internal

// True: `text` is a JSON object, and `events`, a class with the functions of Handler, was told the
// same as ParseStream would have told it. Its answers are not asked for, but where it has a
// function stopped(), nothing is read once that is true. False: the text is damaged or holds what
// json.dump of Python seldom writes (escapes, numbers of many digits, deep nesting); `events` has
// then heard a part of it and is of no more use, and ParseStream has the answer.
template <typename Events>
bool WalkPlainObject(std::string_view text, Events& events) {
  return internal::PlainWalk<Events>(text, events).Run();
}

}  // namespace msprobe::json
