// Lines for a terminal: wrapped at its width, coloured where wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/report/texts.h"

namespace msprobe::report {

enum class Ink : uint8_t { kNone, kGreen, kYellow, kRed, kBold };

// The properties of the reader's screen; the only description of it.
struct ScreenOptions {
  size_t width = 100;  // in characters; at least 40 are used
  // A terminal has a right edge at `width`: everything but paths is wrapped there. Pipes and files
  // have none: sentences that are paragraphs are wrapped, everything else is one line, uncut.
  bool has_edge = true;
  bool color = false;
  bool ascii = false;  // the locale has no UTF-8: marks of ours are ASCII
  // Name of this host where the terminal makes links (OSC 8) of files and lines of code.
  std::string link_host = {};
  Language language = Language::kEnglish;
};

class Screen {
 public:
  explicit Screen(const ScreenOptions& options);

  void Blank() { text_ += '\n'; }
  void Heading(std::string_view text);
  // One line where there is no edge, otherwise wrapped with `indent` blanks before further lines.
  void Line(Ink ink, std::string_view text, size_t indent = 2);
  // The same behind a label, which alone is coloured.
  void Labelled(Ink ink, std::string_view label, std::string_view text, size_t indent);
  // Sentences: always wrapped.
  void Paragraph(Ink ink, std::string_view text);
  // Never cut or wrapped: for copying, or formatted already.
  void Raw(std::string_view text) { text_ += text; }

  // For pictures that fill a terminal: text that is too long is cut at the edge, between words.
  void CutLine(Ink ink, std::string_view text);

  const ScreenOptions& options() const { return options_; }
  bool empty() const { return text_.empty(); }
  std::string Take();

 private:
  std::string Painted(Ink ink, std::string_view text) const;

  ScreenOptions options_;
  std::string text_;
};

}  // namespace msprobe::report
