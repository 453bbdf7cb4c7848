#include "src/report/text_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report {
namespace {

constexpr size_t kNarrowest = 8;
constexpr std::string_view kBreakBehind = "./_-,";

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Blocks whose characters take two columns (East Asian Width W and F, and emoji).
constexpr std::array<CodeRange, 12> kWide = {{{0x1100, 0x115F},
                                              {0x2E80, 0x303E},
                                              {0x3041, 0x33FF},
                                              {0x3400, 0x4DBF},
                                              {0x4E00, 0x9FFF},
                                              {0xA000, 0xA4CF},
                                              {0xAC00, 0xD7A3},
                                              {0xF900, 0xFAFF},
                                              {0xFE30, 0xFE6F},
                                              {0xFF00, 0xFF60},
                                              {0x1F300, 0x1FAFF},
                                              {0x20000, 0x3FFFD}}};
// Combining marks and joiners take none.
constexpr std::array<CodeRange, 3> kZero = {{{0x0300, 0x036F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}}};

template <size_t kCount>
bool Contains(const std::array<CodeRange, kCount>& ranges, uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

// How many bytes of a word that is too long go into `room` columns.
size_t BytesThatFit(std::string_view word, size_t room) {
  size_t columns = 0;
  size_t at = 0;
  size_t behind_mark = 0;
  while (at < word.size()) {
    const Glyph glyph = NextGlyph(word.substr(at));
    if (columns + glyph.width > room) {
      break;
    }
    columns += glyph.width;
    at += glyph.bytes;
    // Not so early that most of the line stays empty.
    if (columns * 2 > room && kBreakBehind.find(word[at - 1]) != std::string_view::npos) {
      behind_mark = at;
    }
  }
  return behind_mark > 0 && at < word.size() ? behind_mark : at;
}

}  // namespace

Glyph NextGlyph(std::string_view text) {
  const base::Utf8Char character = base::DecodeUtf8(text);
  if (!base::IsPrintable(character)) {
    return {character.bytes, 1, false};
  }
  const uint32_t code = character.code;
  const size_t width = Contains(kWide, code) ? 2 : Contains(kZero, code) ? 0 : 1;
  return {character.bytes, width, true};
}

size_t ColumnsOf(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Glyph glyph = NextGlyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes);
  }
  return width;
}

std::vector<std::string> WrapText(std::string_view text, size_t first, size_t others) {
  first = std::max(first, kNarrowest);
  others = std::max(others, kNarrowest);
  std::vector<std::string> lines(1);
  size_t columns = 0;
  bool begins = true;  // no word stands in the line yet
  const auto room = [&] { return lines.size() == 1 ? first : others; };
  const auto next_line = [&] {
    lines.emplace_back();
    columns = 0;
    begins = true;
  };
  for (std::string_view word : base::Split(text, ' ')) {
    size_t left = ColumnsOf(word);  // counted once: a word may be very long
    if (!begins && columns + 1 + left > room()) {
      next_line();
    }
    if (!begins) {
      lines.back() += ' ';
      ++columns;
    }
    while (columns + left > room()) {
      const size_t bytes = std::max<size_t>(BytesThatFit(word, room() - columns), 1);
      lines.back() += word.substr(0, bytes);
      left -= std::min(left, ColumnsOf(word.substr(0, bytes)));
      word.remove_prefix(bytes);
      next_line();
    }
    lines.back() += word;
    columns += left;
    begins = false;
  }
  return lines;
}

}  // namespace msprobe::report
