#include "src/report/screen.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report {
namespace {

constexpr size_t kMinimumWidth = 40;

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
  std::string line = " ";
  for (const std::string_view word : base::Split(text, ' ')) {
    if (line.size() + 1 + word.size() > width_ && line.size() > 2) {
      text_ += line + '\n';
      line = " ";
    }
    line.append(" ").append(word);
  }
  text_ += line + '\n';
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
