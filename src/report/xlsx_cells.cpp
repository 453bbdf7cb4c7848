#include "src/report/xlsx_cells.h"

#include <array>
#include <charconv>
#include <cmath>

#include "src/base/number_text.h"

namespace msprobe::report {
namespace {

constexpr size_t kMaxCellUnits = 32767;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What a byte needs: nothing, an escape or a replacement, or a look at the whole UTF-8 sequence.
enum class ByteClass : uint8_t { kPlain, kSpecial, kMultiByte };

constexpr std::array<ByteClass, 256> kByteClasses = [] {
  std::array<ByteClass, 256> classes{};
  for (size_t byte = 0; byte < 256; ++byte) {
    const bool control = byte < 0x20 && byte != '\t' && byte != '\n';
    const bool markup = byte == '&' || byte == '<' || byte == '>' || byte == '"';
    classes[byte] = byte >= 0x80        ? ByteClass::kMultiByte
                    : control || markup ? ByteClass::kSpecial
                                        : ByteClass::kPlain;
  }
  return classes;
}();

void AppendSpecial(char c, std::string& out) {
  switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\r':
      out += "&#13;";  // a bare one would be read as a line feed
      break;
    default:
      out += '_';
      break;
  }
}

// The length of the valid UTF-8 sequence at the start of `text`, or 0. Overlong forms and
// surrogates are not valid.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first >= 0xC2 && first <= 0xDF) {
    return continues(1) ? 2 : 0;
  }
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) {
      return 0;
    }
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) {
      return 0;
    }
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) >= 0x90;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

bool NeedsPreservedSpace(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  return !text.empty() && (blank(text.front()) || blank(text.back()) ||
                           text.find_first_of("\n\t") != std::string_view::npos);
}

void AppendInteger(int64_t value, std::string& out) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), static_cast<size_t>(end.ptr - text.data()));
}

// printf's %.16g. The shortest text that reads back the same is the same text unless it has 17
// digits, and much faster.
void AppendNumber(double value, std::string& out) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  const std::string_view shortest(text.data(), static_cast<size_t>(end.ptr - text.data()));
  constexpr size_t kCertainlyShort = 16;
  if (shortest.size() <= kCertainlyShort) {
    out += shortest;
  } else {
    base::AppendGeneral(value, 16, out);
  }
}

}  // namespace

void AppendXmlText(std::string_view text, size_t limit_units, std::string& out) {
  size_t units = 0;
  size_t at = 0;
  while (at < text.size() && units < limit_units) {
    // A run of plain bytes goes out in one piece.
    size_t end = at;
    while (end < text.size() && units + (end - at) < limit_units &&
           kByteClasses[static_cast<unsigned char>(text[end])] == ByteClass::kPlain) {
      ++end;
    }
    out.append(text.data() + at, end - at);
    units += end - at;
    at = end;
    if (at == text.size() || units == limit_units) {
      return;
    }
    if (kByteClasses[static_cast<unsigned char>(text[at])] == ByteClass::kSpecial) {
      AppendSpecial(text[at], out);
      ++at;
      ++units;
      continue;
    }
    const std::string_view rest = text.substr(at);
    const size_t length = Utf8Length(rest);
    const size_t needed = length == 4 ? 2 : 1;
    if (units + needed > limit_units) {
      return;
    }
    // U+FFFE and U+FFFF are the only three-byte characters XML forbids.
    const bool forbidden =
        length == 3 && (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF"));
    if (length == 0) {
      out += kReplacement;
    } else if (forbidden) {
      out += '_';
    } else {
      out += rest.substr(0, length);
    }
    at += length == 0 ? 1 : length;
    units += needed;
  }
}

void AppendXlsxRow(std::span<const Cell> cells, size_t number, XlsxStyle style, std::string& out) {
  out += "<row r=\"";
  AppendInteger(static_cast<int64_t>(number), out);
  out += "\">";
  constexpr std::array<std::string_view, 4> kStyleAttributes = {"", " s=\"1\"", " s=\"2\"",
                                                                " s=\"3\""};
  const std::string_view style_attribute = kStyleAttributes[static_cast<size_t>(style)];
  for (const Cell& cell : cells) {
    out += "<c";
    out += style_attribute;
    switch (cell.kind()) {
      case CellKind::kEmpty:
        out += "/>";
        continue;
      case CellKind::kInteger:
        out += "><v>";
        AppendInteger(cell.integer(), out);
        out += "</v></c>";
        continue;
      case CellKind::kNumber:
        if (std::isfinite(cell.number())) {
          out += "><v>";
          AppendNumber(cell.number(), out);
          out += "</v></c>";
        } else {
          out += " t=\"inlineStr\"><is><t>";
          base::AppendPythonFloatRepr(cell.number(), out);
          out += "</t></is></c>";
        }
        continue;
      case CellKind::kText:
        break;
    }
    out += NeedsPreservedSpace(cell.text()) ? " t=\"inlineStr\"><is><t xml:space=\"preserve\">"
                                            : " t=\"inlineStr\"><is><t>";
    AppendXmlText(cell.text(), kMaxCellUnits, out);
    out += "</t></is></c>";
  }
  out += "</row>";
}

}  // namespace msprobe::report
