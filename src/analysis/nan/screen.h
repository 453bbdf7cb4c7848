// The answer for people: on a terminal, or as Markdown for a ticket.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/nan/nan.h"

namespace msprobe::analysis::nan {

struct ScreenOptions {
  size_t width = 100;
  bool color = false;
  bool levels = false;  // the answer has them
};

std::string ScreenAnswer(const Answer& answer, const ScreenOptions& options);
std::string MarkdownAnswer(const Answer& answer);

}  // namespace msprobe::analysis::nan
