// Characters of UTF-8, for text that may be anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::base {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct Utf8Char {
  uint32_t code = 0;  // where not valid: the single byte
  uint32_t bytes = 1;
  bool valid = false;  // false for a byte that belongs to no character
};

// The character at the front of `text`, which must not be empty. Overlong forms and codes beyond
// U+10FFFF are not valid; surrogates (U+D800 to U+DFFF) in three-byte form are reported as such.
inline Utf8Char DecodeUtf8(std::string_view text) {
  const auto byte = [text](size_t at) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[at]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1, true};
  }
  const uint32_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const Utf8Char stray = {lead, 1, false};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) {
    return stray;
  }
  uint32_t code = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return stray;
    }
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const uint32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (code < smallest || code > 0x10FFFF) {
    return stray;
  }
  return {code, length, true};
}

// The character appended; surrogates in three-byte form, as Python's "surrogatepass" has them.
// `code` is at most U+10FFFF.
inline void AppendUtf8(uint32_t code, std::string& out) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

// Characters without a look of their own that change how others look: directions (U+202A to U+202E,
// U+2066 to U+2069 and marks), zero width, separators of lines.
inline bool IsInvisible(uint32_t code) {
  return code == 0xAD || code == 0x61C || code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || (code >= 0xE0000 && code <= 0xE007F);
}

// False for what could steer a terminal (control characters) or deceive who reads it, half of a
// surrogate pair, and bytes that belong to no character.
inline bool IsPrintable(const Utf8Char& character) {
  const uint32_t code = character.code;
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return character.valid && !control && !surrogate && !IsInvisible(code);
}

// At most `limit` bytes of a text, cut between characters and ended by `mark` when something is
// missing.
inline std::string Shortened(std::string_view text, size_t limit, std::string_view mark = "…") {
  if (text.size() <= limit) {
    return std::string(text);
  }
  size_t end = limit;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return std::string(text.substr(0, end)).append(mark);
}

}  // namespace msprobe::base
