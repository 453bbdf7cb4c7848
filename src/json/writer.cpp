#include "src/json/writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "src/base/numbers.h"
#include "src/base/utf8.h"

namespace msprobe::json {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";
constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;
constexpr uint32_t kReplacement = 0xFFFD;

// Bytes that stand for themselves inside quotes.
constexpr std::array<bool, 256> MakePlainTable() {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x7F; ++byte) {
    plain[byte] = byte != '"' && byte != '\\';
  }
  return plain;
}
constexpr std::array<bool, 256> kPlain = MakePlainTable();

void AppendUnicodeEscape(uint32_t unit, std::string& out) {
  const std::array<char, 6> text = {'\\',
                                    'u',
                                    kHex[(unit >> 12U) & 0xFU],
                                    kHex[(unit >> 8U) & 0xFU],
                                    kHex[(unit >> 4U) & 0xFU],
                                    kHex[unit & 0xFU]};
  out.append(text.data(), text.size());
}

// Writes what stands at the front of `text` and cannot be copied; returns its length in bytes.
size_t AppendEscaped(std::string_view text, bool strict, std::string& out) {
  const char c = text.front();
  switch (c) {
    case '"':
      out += "\\\"";
      return 1;
    case '\\':
      out += "\\\\";
      return 1;
    case '\n':
      out += "\\n";
      return 1;
    case '\r':
      out += "\\r";
      return 1;
    case '\t':
      out += "\\t";
      return 1;
    case '\b':
      out += "\\b";
      return 1;
    case '\f':
      out += "\\f";
      return 1;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte < 0x80) {
    AppendUnicodeEscape(byte, out);
    return 1;
  }
  // A byte that belongs to no character is spelled U+DC00 + byte, which is how Python holds such
  // bytes of file names; surrogates in three-byte form are let through for the same reason.
  const base::Utf8Char character = base::DecodeUtf8(text);
  uint32_t code = character.valid ? character.code : 0xDC00U + character.code;
  if (strict && code >= kFirstSurrogate && code <= kLastSurrogate) {
    code = kReplacement;
  }
  if (code < 0x10000) {
    AppendUnicodeEscape(code, out);
  } else {
    const uint32_t offset = code - 0x10000;
    AppendUnicodeEscape(0xD800U + (offset >> 10U), out);
    AppendUnicodeEscape(0xDC00U + (offset & 0x3FFU), out);
  }
  return character.bytes;
}

// Whether eight bytes stand for themselves inside quotes, looked at all at once. The subtractions
// borrow across bytes only above one that fails anyway.
bool ArePlain(const char* bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101U;
  constexpr uint64_t kHighBits = kOnes << 7U;
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  const uint64_t quotes = word ^ (kOnes * '"');
  const uint64_t backslashes = word ^ (kOnes * '\\');
  const uint64_t deletes = word ^ (kOnes * 0x7F);
  const uint64_t below =
      (word - kOnes * 0x20) | (quotes - kOnes) | (backslashes - kOnes) | (deletes - kOnes) | word;
  return (below & kHighBits) == 0;
}

#if defined(__SSE2__)
// The same of sixteen bytes. Compared as signed, what is not ASCII is below a blank, too.
bool SixteenArePlain(const char* bytes) {
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                                                    _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))),
                                       _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8(0x7F)),
                                                    _mm_cmplt_epi8(block, _mm_set1_epi8(' '))));
  return _mm_movemask_epi8(special) == 0;
}
#endif

bool AllPlain(std::string_view text) {
  constexpr size_t kWord = sizeof(uint64_t);
#if defined(__SSE2__)
  constexpr size_t kBlock = sizeof(__m128i);
  if (text.size() >= kBlock) {
    for (size_t at = 0; at + kBlock < text.size(); at += kBlock) {
      if (!SixteenArePlain(text.data() + at)) {
        return false;
      }
    }
    return SixteenArePlain(text.data() + text.size() - kBlock);  // some are looked at twice
  }
#endif
  if (text.size() < kWord) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return kPlain[static_cast<unsigned char>(c)]; });
  }
  for (size_t at = 0; at + kWord < text.size(); at += kWord) {
    if (!ArePlain(text.data() + at)) {
      return false;
    }
  }
  return ArePlain(text.data() + text.size() - kWord);  // some bytes are looked at twice
}

void AppendQuoted(std::string_view text, bool strict, std::string& out) {
  if (AllPlain(text)) {
    const size_t begin = out.size();
    out.append(text.size() + 2, '"');
    text.copy(out.data() + begin + 1, text.size());
    return;
  }
  out += '"';
  size_t copied = 0;
  size_t at = 0;
  while (at < text.size()) {
    if (at + sizeof(uint64_t) <= text.size() && ArePlain(text.data() + at)) {
      at += sizeof(uint64_t);
      continue;
    }
    if (kPlain[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    out.append(text, copied, at - copied);
    at += AppendEscaped(text.substr(at), strict, out);
    copied = at;
  }
  out.append(text, copied, at - copied);
  out += '"';
}

}  // namespace

Writer::Writer(std::string& out, int indent, NonFinite non_finite, size_t depth)
    : out_(out), indent_(indent), non_finite_(non_finite), depth_(depth) {}

void Writer::NewLine(bool comma) {
  // The first levels come from a constant: one append instead of three.
  static constexpr std::string_view kBlanks = ",\n                                                ";
  const size_t blanks = (depth_ + has_items_.size()) * static_cast<size_t>(indent_);
  const size_t skip = comma ? 0 : 1;
  if (blanks + 2 <= kBlanks.size()) {
    out_ += kBlanks.substr(skip, blanks + 2 - skip);
    return;
  }
  out_ += kBlanks.substr(skip, 2 - skip);
  out_.append(blanks, ' ');
}

void Writer::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) {
    return;
  }
  const bool first = has_items_.back() == 0;
  has_items_.back() = 1;
  if (indent_ >= 0) {
    NewLine(!first);
  } else if (!first) {
    out_ += ", ";
  }
}

void Writer::Open(char bracket) {
  BeforeValue();
  out_ += bracket;
  has_items_.push_back(0);
}

void Writer::Close(char bracket) {
  const bool filled = has_items_.back() != 0;
  has_items_.pop_back();
  if (filled && indent_ >= 0) {
    NewLine(false);
  }
  out_ += bracket;
}

void Writer::BeginObject() { Open('{'); }
void Writer::EndObject() { Close('}'); }
void Writer::BeginArray() { Open('['); }
void Writer::EndArray() { Close(']'); }

void Writer::Key(std::string_view key) {
  if (has_items_.empty() || !AllPlain(key)) {
    BeforeValue();
    AppendQuoted(key, non_finite_ == NonFinite::kText, out_);
    out_ += ": ";
    after_key_ = true;
    return;
  }
  // Most keys need no escapes: one append for the key and all that stands around it.
  const bool is_first = has_items_.back() == 0;
  has_items_.back() = 1;
  const size_t comma = is_first ? 0 : 1;
  const size_t blanks =
      indent_ < 0 ? comma : 1 + (depth_ + has_items_.size()) * static_cast<size_t>(indent_);
  constexpr size_t kAround = 4;  // quotes, colon and blank
  const size_t begin = out_.size();
  out_.append(comma + blanks + key.size() + kAround, ' ');
  char* at = out_.data() + begin;
  if (!is_first) {
    *at++ = ',';
  }
  if (indent_ >= 0) {
    *at = '\n';
  }
  at += blanks;
  *at++ = '"';
  at = std::copy(key.begin(), key.end(), at);
  *at++ = '"';
  *at = ':';
  after_key_ = true;
}

void Writer::Null() { Raw("null"); }
void Writer::Bool(bool value) { Raw(value ? "true" : "false"); }

void Writer::Int(int64_t value) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  Raw({text.data(), static_cast<size_t>(end.ptr - text.data())});
}

void Writer::Float(double value) {
  if (std::isfinite(value)) {
    BeforeValue();
    base::AppendPythonFloatRepr(value, out_);
  } else if (non_finite_ == NonFinite::kNull) {
    Null();
  } else {
    const std::string_view word = std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    if (non_finite_ == NonFinite::kText) {
      Text(word);
    } else {
      Raw(word);
    }
  }
}

void Writer::Text(std::string_view utf8) {
  BeforeValue();
  AppendQuoted(utf8, non_finite_ == NonFinite::kText, out_);
}

void Writer::Raw(std::string_view token) {
  BeforeValue();
  out_ += token;
}

}  // namespace msprobe::json
