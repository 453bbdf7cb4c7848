#include "src/report/screen.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/base/strings.h"
#include "src/report/render_terminal.h"

namespace msprobe::report {
namespace {

constexpr size_t kMinimumWidth = 40;
constexpr size_t kParagraphIndent = 2;
constexpr std::array<std::string_view, 5> kCodes = {"", "\x1b[1;32m", "\x1b[1;33m", "\x1b[1;31m",
                                                    "\x1b[1m"};

size_t LeadingBlanks(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

}  // namespace

Screen::Screen(const ScreenOptions& options) : options_(options) {
  options_.width = std::max(options_.width, kMinimumWidth);
}

void Screen::Heading(std::string_view text) {
  Blank();
  Line(Ink::kBold, text);
}

void Screen::Line(Ink ink, std::string_view text, size_t indent) {
  const size_t blanks = LeadingBlanks(text);
  if (!options_.has_edge) {
    text_ += Painted(ink, text) + "\n";
    return;
  }
  size_t used = blanks;
  for (const std::string& line :
       WrapText(text.substr(blanks), options_.width - blanks, options_.width - indent)) {
    text_.append(used, ' ');
    text_ += Painted(ink, line) + "\n";
    used = indent;
  }
}

void Screen::Labelled(Ink ink, std::string_view label, std::string_view text, size_t indent) {
  text_ += Painted(ink, label);
  const size_t columns = ColumnsOf(label) + 1;
  if (!options_.has_edge) {
    text_ += text.empty() ? "\n" : " " + std::string(text) + "\n";
    return;
  }
  // A label that leaves no room stands on a line of its own.
  const bool crowded = columns + text.size() > options_.width && columns > options_.width * 2 / 3;
  size_t used = 1;
  if (crowded) {
    text_ += '\n';
    used = indent;
  }
  const size_t first =
      crowded ? options_.width - indent : options_.width - std::min(options_.width, columns);
  for (const std::string& line : WrapText(text, first, options_.width - indent)) {
    text_.append(line.empty() ? 0 : used, ' ');
    text_ += line + "\n";
    used = indent;
  }
}

void Screen::Paragraph(Ink ink, std::string_view text) {
  const size_t room = options_.width - kParagraphIndent;
  for (const std::string& line : WrapText(text, room, room)) {
    text_.append(kParagraphIndent, ' ');
    text_ += Painted(ink, line) + "\n";
  }
}

void Screen::CutLine(Ink ink, std::string_view text) {
  size_t columns = 0;
  size_t last = 0;        // the end of what can be shown with the mark behind it
  size_t last_blank = 0;  // the last blank before it
  for (size_t at = 0; at < text.size();) {
    const Glyph glyph = NextGlyph(text.substr(at));
    columns += glyph.width;
    if (columns > options_.width) {
      // Between words, so that no number is cut; one long word is cut where it ends.
      const size_t end = last_blank > last / 2 ? last_blank : last;
      text_ += Painted(ink, std::string(text.substr(0, end)) + (options_.ascii ? ">" : "…")) + "\n";
      return;
    }
    // Text before the last column makes room for the mark.
    if (columns < options_.width) {
      last_blank = text[at] == ' ' ? at : last_blank;
      last = at + glyph.bytes;
    }
    at += glyph.bytes;
  }
  text_ += Painted(ink, text) + "\n";
}

std::string Screen::Take() { return std::move(text_); }

std::string Screen::Painted(Ink ink, std::string_view text) const {
  if (!options_.color || ink == Ink::kNone || text.empty()) {
    return std::string(text);
  }
  return std::string(kCodes[static_cast<size_t>(ink)]) + std::string(text) + "\x1b[0m";
}

}  // namespace msprobe::report
