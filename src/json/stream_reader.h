// Streaming JSON: events instead of a document, so that a dump of any size is read in constant
// memory. Accepts what Python's json module writes: bare NaN, Infinity, -Infinity. ParseStream
// reads all JSON and explains what is damaged; ParsePlainObject is a quick way for plain objects.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "msprobe/status.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace msprobe::json::internal {

// Where runs of ordinary bytes end, sixteen bytes at a time.

// First byte in [at, end) that a plain run of a text cannot hold: a quote, a backslash or a control
// character.
inline const char* EndOfPlainRun(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  for (; end - at >= 16; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i special =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash)),
                     _mm_cmpeq_epi8(_mm_max_epu8(block, control), control));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special)); mask != 0) {
      return at + std::countr_zero(mask);
    }
  }
#endif
  while (at != end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) {
    ++at;
  }
  return at;
}

inline const char* EndOfBlanks(const char* at, const char* end) {
#if defined(__SSE2__)
  // Indentation is long in written dumps; one blank between tokens is the other common case.
  const __m128i space = _mm_set1_epi8(' ');
  if (end - at > 16 && *at == '\n') {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 1));
    const unsigned others =
        ~static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, space))) & 0xFFFFU;
    if (others != 0) {
      const char* const behind = at + 1 + std::countr_zero(others);
      if (static_cast<unsigned char>(*behind) > ' ') {
        return behind;
      }
    }
  }
  const __m128i line_feed = _mm_set1_epi8('\n');
  const __m128i carriage_return = _mm_set1_epi8('\r');
  const __m128i tab = _mm_set1_epi8('\t');
  for (; end - at >= 16; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i blank = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(block, space), _mm_cmpeq_epi8(block, line_feed)),
        _mm_or_si128(_mm_cmpeq_epi8(block, carriage_return), _mm_cmpeq_epi8(block, tab)));
    const unsigned others = ~static_cast<unsigned>(_mm_movemask_epi8(blank)) & 0xFFFFU;
    if (others != 0) {
      return at + std::countr_zero(others);
    }
  }
#endif
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
    ++at;
  }
  return at;
}

// The same where mostly one blank or none stands.
inline const char* SkipBlanks(const char* at, const char* end) {
  if (at != end && static_cast<unsigned char>(*at) <= ' ') {
    // One blank stands behind every colon; more only at the start of a line.
    if (*at == ' ' && end - at > 1 && static_cast<unsigned char>(at[1]) > ' ') {
      return at + 1;
    }
    return EndOfBlanks(at, end);
  }
  return at;
}

// Where something stands in a text, as messages tell it.

// Where an offset lies, 1-based; columns count bytes. Lines end at '\n'.
struct TextPosition {
  size_t line = 1;
  size_t column = 1;
};
TextPosition Locate(std::string_view text, size_t offset);

// kBadFormat: "line 3 column 1 (byte 11): expected ':' behind a key".
Status ErrorAt(std::string_view text, size_t offset, std::string_view what);

}  // namespace msprobe::json::internal

namespace msprobe::json {

// Texts are valid only during the call. Return false to stop; ParseStream then returns ok.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual bool OnNull() = 0;
  virtual bool OnBool(bool value) = 0;
  // A number as written. Decodes it and calls one of the two below, unless a handler that wants few
  // numbers decides otherwise.
  virtual bool OnNumber(std::string_view digits);
  virtual bool OnInt(int64_t value) = 0;
  // Floats, and integers beyond int64. `digits` is the number as written.
  virtual bool OnFloat(double value, std::string_view digits) = 0;
  virtual bool OnText(std::string_view value) = 0;
  virtual bool OnBeginObject() = 0;
  virtual bool OnKey(std::string_view key) = 0;
  virtual bool OnEndObject() = 0;
  virtual bool OnBeginArray() = 0;
  virtual bool OnEndArray() = 0;

  // Behind the last byte of the token at hand, in the text that is read.
  const char* place() const { return place_; }
  void SetPlace(const char* place) { place_ = place; }

 private:
  const char* place_ = nullptr;
};

struct ParseOutcome {
  bool truncated = false;     // the text ended inside a value: everything before it was delivered
  uint64_t error_offset = 0;  // byte where parsing failed
};

// Errors are kBadFormat and name byte, line and column. Nesting deeper than `max_depth` is an
// error, never a crash.
Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome = nullptr,
                   int max_depth = 512);

namespace internal {

// The quick way over the JSON that dumps are mostly made of, which hands its events to one class
// of handlers without virtual calls.
//
// The last byte is a bracket, which ends numbers, words and blanks. So only who goes past a
// bracket, or over a text, where a bracket means nothing, has to ask whether there is more.
template <typename Events>
class PlainReader {
 public:
  PlainReader(std::string_view text, Events& events)
      : at_(text.data()), end_(text.data() + text.size()), events_(events) {}

  bool Run() {
    if (end_ - at_ < 2 || *at_ != '{' || end_[-1] != '}') {
      return false;
    }
    do {
      if (!Value() || !Next()) {
        return stopped_;
      }
    } while (depth_ > 0);
    return at_ == end_;
  }

 private:
  static constexpr unsigned kDeepest = 64;  // one bit each
  static constexpr std::ptrdiff_t kLongestNumber = 32;

  bool in_object() const { return (objects_ & 1U) != 0; }
  bool IsAt(char c) const { return *at_ == c; }
  bool IsAtClosing() const { return IsAt(in_object() ? '}' : ']'); }

  // Hands an event over, whose token ends at `at_`.
  template <typename Event>
  bool Tell(Event event) {
    events_.SetPlace(at_);
    stopped_ = !event();
    return !stopped_;
  }

  // From the beginning of a value to behind the first that is not a container or an empty one,
  // which is left open.
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
      if (!IsAtClosing() || !Close()) {
        return false;
      }
    }
    return true;
  }

  bool Open() {
    if (depth_ == kDeepest) {
      return false;
    }
    const bool is_object = *at_++ == '{';
    objects_ = objects_ << 1U | (is_object ? 1U : 0U);
    ++depth_;
    const bool go_on =
        Tell([&] { return is_object ? events_.OnBeginObject() : events_.OnBeginArray(); });
    at_ = SkipBlanks(at_, end_);
    return go_on;
  }

  bool Close() {
    const bool was_object = in_object();
    objects_ >>= 1U;
    --depth_;
    ++at_;
    return Tell([&] { return was_object ? events_.OnEndObject() : events_.OnEndArray(); });
  }

  // From a key to the value behind it.
  bool Key() {
    std::string_view key;
    if (!IsAt('"') || !Text(key) || !Tell([&] { return events_.OnKey(key); })) {
      return false;
    }
    at_ = SkipBlanks(at_, end_);
    if (!IsAt(':')) {
      return false;
    }
    at_ = SkipBlanks(at_ + 1, end_);
    return true;
  }

  bool Scalar() {
    std::string_view text;
    switch (*at_) {
      case '"':
        return Text(text) && Tell([&] { return events_.OnText(text); });
      case 't':
        return Word("true") && Tell([&] { return events_.OnBool(true); });
      case 'f':
        return Word("false") && Tell([&] { return events_.OnBool(false); });
      case 'n':
        return Word("null") && Tell([&] { return events_.OnNull(); });
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
    const std::string_view number(begin, static_cast<size_t>(at_ - begin));
    return Tell([&] { return events_.OnNumber(number); });
  }

  bool Fraction() {
    if (!IsAt('.')) {
      return true;
    }
    ++at_;
    return Digits();
  }

  // At most two digits, so that no number exceeds the range of a double.
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
  bool stopped_ = false;
};

}  // namespace internal

// For readers that want a few values out of very many small objects. True: `text` is a JSON object,
// and `events`, a final class of handlers, heard the same as ParseStream would have let it hear,
// until it wanted no more. False: the text is damaged or holds what json.dump of Python seldom
// writes (escapes, numbers of many digits, deep nesting); `events` has then heard a part of it and
// is of no more use, and ParseStream has the answer.
template <typename Events>
bool ParsePlainObject(std::string_view text, Events& events) {
  return internal::PlainReader<Events>(text, events).Run();
}

}  // namespace msprobe::json
