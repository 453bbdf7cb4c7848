#include "src/io/pickle_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/base/utf8.h"

namespace msprobe::io {
namespace {

std::optional<uint32_t> HexDigits(std::string_view digits) {
  uint32_t value = 0;
  for (char c : digits) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return value;
}

std::optional<char> SimpleEscape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return std::nullopt;
  }
}

}  // namespace

bool DecodeQuotedText(std::string_view literal, std::string* out) {
  while (!literal.empty() && (literal.back() == ' ' || literal.back() == '\r')) {
    literal.remove_suffix(1);
  }
  if (literal.size() < 2 || literal.front() != literal.back() ||
      (literal.front() != '\'' && literal.front() != '"')) {
    return false;
  }
  const std::string_view body = literal.substr(1, literal.size() - 2);
  out->clear();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out->push_back(body[i]);
      continue;
    }
    const char next = body[++i];
    if (const std::optional<char> simple = SimpleEscape(next)) {
      out->push_back(*simple);
    } else if (next == 'x') {
      const std::optional<uint32_t> value =
          i + 2 < body.size() ? HexDigits(body.substr(i + 1, 2)) : std::nullopt;
      if (!value) {
        return false;
      }
      out->push_back(static_cast<char>(*value));
      i += 2;
    } else if (next >= '0' && next <= '7') {
      uint32_t value = 0;
      size_t digits = 0;
      while (digits < 3 && i + digits < body.size() && body[i + digits] >= '0' &&
             body[i + digits] <= '7') {
        value = value * 8 + static_cast<uint32_t>(body[i + digits] - '0');
        ++digits;
      }
      out->push_back(static_cast<char>(value & 0xFFU));
      i += digits - 1;
    } else {
      out->push_back('\\');
      out->push_back(next);
    }
  }
  return true;
}

bool DecodeRawUnicodeEscapes(std::string_view line, std::string* out) {
  out->clear();
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape =
        line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
    if (!escape) {
      base::AppendUtf8(static_cast<unsigned char>(line[i]), *out);
      continue;
    }
    const size_t digits = line[i + 1] == 'u' ? 4 : 8;
    const std::optional<uint32_t> value =
        i + 1 + digits < line.size() ? HexDigits(line.substr(i + 2, digits)) : std::nullopt;
    if (!value || *value > 0x10FFFF) {
      return false;
    }
    base::AppendUtf8(*value, *out);
    i += digits + 1;
  }
  return true;
}

bool Utf8ToLatin1(std::string_view utf8, std::string* out) {
  out->clear();
  out->reserve(utf8.size());
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      out->push_back(utf8[i]);
      continue;
    }
    // Code points 128 to 255 are the two-byte forms with lead C2 or C3.
    if ((lead != 0xC2 && lead != 0xC3) || i + 1 == utf8.size()) {
      return false;
    }
    const auto tail = static_cast<unsigned char>(utf8[++i]);
    if ((tail & 0xC0U) != 0x80U) {
      return false;
    }
    out->push_back(static_cast<char>(((lead & 0x03U) << 6U) | (tail & 0x3FU)));
  }
  return true;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsUtf8(std::string_view text, Surrogates surrogates) {
  while (!text.empty()) {
    const base::Utf8Char next = base::DecodeUtf8(text);
    const bool surrogate = next.code >= 0xD800 && next.code < 0xE000;
    if (!next.valid || (surrogate && surrogates == Surrogates::kRefused)) {
      return false;
    }
    text.remove_prefix(next.bytes);
  }
  return true;
}

}  // namespace msprobe::io
