// Lines for a terminal: cut or wrapped at its width, coloured where wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::report {

enum class Ink : uint8_t { kGreen, kYellow, kRed, kBold };

// Each character counts as one column. At least 40 columns are used, however narrow the terminal.
class Screen {
 public:
  Screen(size_t width, bool color);

  void Line(std::string_view text);
  void Line(Ink ink, std::string_view text);
  void Blank() { text_ += '\n'; }
  void Heading(std::string_view text);
  // "  label        text", the text cut at the width.
  void Item(std::string_view label, std::string_view text);
  // Sentences are wrapped, not cut.
  void Paragraph(std::string_view text);
  // Sentences behind a label, wrapped below each other after `indent` blanks; the label coloured.
  void Labelled(std::string_view label, std::string_view text, size_t indent);
  void Labelled(Ink ink, std::string_view label, std::string_view text, size_t indent);
  void Raw(std::string_view text) { text_ += text; }

  size_t width() const { return width_; }
  bool color() const { return color_; }
  std::string Take();

 private:
  std::string Cut(std::string_view text) const;
  std::string Painted(Ink ink, const std::string& text) const;
  // Words behind what stands on the current line, `columns` of it used.
  void Wrap(std::string_view text, size_t columns, size_t indent);

  const size_t width_;
  const bool color_;
  std::string text_;
};

}  // namespace msprobe::report
