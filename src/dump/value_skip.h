// Inside of the room: finds the end of a JSON value without decoding it, 64 bytes at a time.
#pragma once

#include <string_view>

namespace msprobe::dump::internal {

struct SkippedValue {
  const char* end = nullptr;  // one past the value; null when the text ends inside of it
  // Set when a bare NaN or Infinity, a text that ends in "nan" or "inf", a number beyond the range
  // of a double or a raw control character may be inside.
  bool is_suspicious = false;
};

// `at` is the first byte of the value, in [text.begin, end). Brackets are counted, not checked for
// their kind; without recursion.
SkippedValue SkipValue(const char* at, const char* end);

// `at` is behind the opening quote; returns the closing quote, or null. Clears `plain` when a
// backslash or a control character is inside.
const char* EndOfText(const char* at, const char* end, bool* plain);

const char* SkipBlanks(const char* at, const char* end);

}  // namespace msprobe::dump::internal
