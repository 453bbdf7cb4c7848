#include "src/analysis/accuracy/common/outcome.h"

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {

std::string FirstLine(std::string_view text) {
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!base::Trim(line).empty()) {
      return std::string(base::Trim(line));
    }
  }
  return {};
}

std::string CountsText(const OutcomeCounts& counts) {
  if (counts.total() == 0) {
    return "none";
  }
  std::string text = base::FormatCount(counts.total()) + ":";
  for (const Outcome outcome :
       {Outcome::kPass, Outcome::kWarning, Outcome::kError, Outcome::kSkip}) {
    if (counts.Of(outcome) > 0) {
      text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",",
                          base::FormatCount(counts.Of(outcome)), OutcomeText(outcome));
    }
  }
  return text;
}

}  // namespace msprobe::analysis::accuracy
