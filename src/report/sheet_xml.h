// Texts as the XML of worksheets and reports holds them, and names of columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::report::internal {

// The replacement of control characters in a text.
enum class Controls : uint8_t {
  kReplaced,  // carriage returns are references, all others '_'
  kEscaped,   // _x000D_, as the format has it and only some readers undo
};

// Writes `text` and returns the end. An empty view may have no address for memcpy.
inline char* Put(char* out, std::string_view text) {
  return std::copy(text.begin(), text.end(), out);
}

// "A", "Z", "AA": the name of a column counted from 0.
std::string ColumnName(size_t column);

// Whether a reader gives the text back as it is written: no markup, no blanks around it, nothing
// but printable ASCII. False says nothing.
bool IsPlainXml(std::string_view text);

// `text` made safe for XML content and double-quoted attributes: markup escaped, carriage returns
// as references, everything that XML 1.0 forbids (control characters, bytes that are not UTF-8,
// surrogates, U+FFFE, U+FFFF) as '_', unless `controls` says otherwise. Writes at most
// kEscapeFactor bytes per byte of text; returns the end.
inline constexpr size_t kEscapeFactor = 7;
char* EscapeXml(std::string_view text, char* out, Controls controls = Controls::kReplaced);
std::string EscapedXml(std::string_view text);

// The longest front of `text` with at most `units` UTF-16 units.
std::string_view FirstUnits(std::string_view text, size_t units);
// The text that a cell can hold: at most 32,767 UTF-16 units.
inline std::string_view CutToCell(std::string_view text) { return FirstUnits(text, 32767); }

}  // namespace msprobe::report::internal
