#include "src/report/screen.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report {
namespace {

constexpr size_t kMinimumWidth = 40;

size_t Columns(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size(); at += base::DecodeUtf8(text.substr(at)).bytes) {
    ++columns;
  }
  return columns;
}

}  // namespace

Screen::Screen(size_t width, bool color) : width_(std::max(width, kMinimumWidth)), color_(color) {}

void Screen::Line(std::string_view text) {
  text_ += Cut(text);
  text_ += '\n';
}

void Screen::Line(Ink ink, std::string_view text) {
  text_ += Painted(ink, Cut(text));
  text_ += '\n';
}

void Screen::Heading(std::string_view text) {
  Blank();
  Line(Ink::kBold, text);
}

void Screen::Item(std::string_view label, std::string_view text) {
  Line(fmt::format("  {:<12} {}", label, text));
}

void Screen::Paragraph(std::string_view text) {
  constexpr size_t kIndent = 2;
  text_.append(kIndent - 1, ' ');
  Wrap(text, kIndent - 1, kIndent);
}

void Screen::Labelled(std::string_view label, std::string_view text, size_t indent) {
  text_ += label;
  Wrap(text, Columns(label), indent);
}

void Screen::Labelled(Ink ink, std::string_view label, std::string_view text, size_t indent) {
  text_ += Painted(ink, std::string(label));
  Wrap(text, Columns(label), indent);
}

void Screen::Wrap(std::string_view text, size_t columns, size_t indent) {
  bool first = true;
  for (const std::string_view word : base::Split(text, ' ')) {
    const size_t word_columns = Columns(word);
    if (!first && columns + 1 + word_columns > width_) {
      text_ += '\n';
      text_.append(indent, ' ');
      columns = indent;
    } else {
      text_ += ' ';
      ++columns;
    }
    text_ += word;
    columns += word_columns;
    first = false;
  }
  text_ += '\n';
}

std::string Screen::Take() { return std::move(text_); }

// Cuts between characters.
std::string Screen::Cut(std::string_view text) const {
  size_t columns = 0;
  size_t last = 0;
  for (size_t at = 0; at < text.size(); at += base::DecodeUtf8(text.substr(at)).bytes) {
    if (++columns > width_) {
      return std::string(text.substr(0, last)) + "…";
    }
    last = at;
  }
  return std::string(text);
}

std::string Screen::Painted(Ink ink, const std::string& text) const {
  if (!color_) {
    return text;
  }
  constexpr std::string_view kCodes[] = {"\x1b[1;32m", "\x1b[1;33m", "\x1b[1;31m", "\x1b[1m"};
  return std::string(kCodes[static_cast<size_t>(ink)]) + text + "\x1b[0m";
}

}  // namespace msprobe::report
