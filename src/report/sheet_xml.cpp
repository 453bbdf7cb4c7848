#include "src/report/sheet_xml.h"

#include <array>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report::internal {
namespace {

// Bytes of text that are copied as they are.
constexpr std::array<bool, 256> MakePlainTable() {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x80; ++byte) {
    plain[byte] = byte != '&' && byte != '<' && byte != '>' && byte != '"';
  }
  plain['\t'] = true;
  plain['\n'] = true;
  return plain;
}
constexpr std::array<bool, 256> kPlainBytes = MakePlainTable();

// One character that is not plain; advances `at`.
char* PutSpecial(std::string_view text, size_t& at, char* out, Controls controls) {
  if (controls == Controls::kEscaped && static_cast<unsigned char>(text[at]) < 0x20) {
    return fmt::format_to(out, "_x{:04X}_", static_cast<unsigned char>(text[at++]));
  }
  switch (text[at]) {
    case '&':
      ++at;
      return Put(out, "&amp;");
    case '<':
      ++at;
      return Put(out, "&lt;");
    case '>':
      ++at;
      return Put(out, "&gt;");
    case '"':
      ++at;
      return Put(out, "&quot;");
    case '\r':
      ++at;
      return Put(out, "&#13;");
    default:
      break;
  }
  const base::Utf8Char character = base::DecodeUtf8(text.substr(at));
  const uint32_t code = character.code;
  const bool allowed = character.valid && code >= 0x80 && (code < 0xD800 || code >= 0xE000) &&
                       code != 0xFFFE && code != 0xFFFF;
  out = allowed ? Put(out, text.substr(at, character.bytes)) : Put(out, "_");
  at += character.bytes;
  return out;
}

}  // namespace

std::string ColumnName(size_t column) {
  std::string name;
  for (size_t rest = column + 1; rest > 0; rest = (rest - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return name;
}

bool IsPlainXml(std::string_view text) {
  return text.empty() ||
         (text.front() != ' ' && text.back() != ' ' && base::NoWordHas(text, [](uint64_t word) {
            return base::UnprintableOf(word) | base::MatchesOf(word, '&') |
                   base::MatchesOf(word, '<') | base::MatchesOf(word, '>') |
                   base::MatchesOf(word, '"');
          }));
}

char* EscapeXml(std::string_view text, char* out, Controls controls) {
  size_t copied = 0;
  size_t at = 0;
  while (at < text.size()) {
    if (kPlainBytes[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    out = Put(out, text.substr(copied, at - copied));
    out = PutSpecial(text, at, out, controls);
    copied = at;
  }
  return Put(out, text.substr(copied));
}

std::string EscapedXml(std::string_view text) {
  std::string out(kEscapeFactor * text.size(), '\0');
  out.resize(static_cast<size_t>(EscapeXml(text, out.data()) - out.data()));
  return out;
}

std::string_view FirstUnits(std::string_view text, size_t units) {
  if (text.size() <= units) {
    return text;  // no character takes fewer bytes than units
  }
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Char character = base::DecodeUtf8(text.substr(at));
    const size_t needed = character.bytes == 4 ? 2 : 1;
    if (needed > units) {
      break;
    }
    units -= needed;
    at += character.bytes;
  }
  return text.substr(0, at);
}

}  // namespace msprobe::report::internal
