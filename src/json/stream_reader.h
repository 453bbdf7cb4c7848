// Streaming JSON: events instead of a document, so that a dump of any size is read in constant
// memory. Accepts what Python's json module writes: bare NaN, Infinity, -Infinity.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

// What a CountingIterator went over: the place of the byte that was taken last.
struct LineCounter {
  size_t taken = 0;  // bytes
  int line = 1;
  bool line_ends = false;  // the byte is a line break, so the next one stands on the next line

  void Take(char byte) {
    line += line_ends ? 1 : 0;
    line_ends = byte == '\n';
    ++taken;
  }
};

// Goes over a text and counts in `counter`, which is borrowed, as all copies do: for parsers that
// take iterators and tell of a value right behind its last byte, or one byte later. In both cases
// counter->line is the line of the value's end, because what ends a number is at most the line
// break itself.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCounter* counter) : at_(at), counter_(counter) {}

  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    counter_->Take(*at_);
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  LineCounter* counter_;
};

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
};

struct ParseOutcome {
  bool truncated = false;     // the text ended inside a value: everything before it was delivered
  uint64_t error_offset = 0;  // byte where parsing failed
};

// Errors are kBadFormat and name byte, line and column. Nesting deeper than `max_depth` is an
// error, never a crash.
Status ParseStream(std::string_view text, Handler& handler, ParseOutcome* outcome = nullptr,
                   int max_depth = 512);

}  // namespace msprobe::json
