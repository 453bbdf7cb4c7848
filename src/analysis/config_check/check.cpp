#include "src/analysis/config_check/check.h"

#include <algorithm>
#include <utility>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::config_check {

std::string_view PartName(const Finding& finding) {
  return finding.part ? PartName(*finding.part) : "packs";
}

void AddExample(Finding& finding, std::string text) {
  const std::vector<std::string>& examples = finding.examples;
  if (examples.size() < kMaxExamples &&
      std::find(examples.begin(), examples.end(), text) == examples.end()) {
    finding.examples.push_back(std::move(text));
  }
}

std::string Shown(std::string_view value) {
  constexpr size_t kMaxBytes = 60;
  if (value.empty()) {
    return "(empty)";
  }
  size_t end = 0;
  while (end < value.size() && end < kMaxBytes) {
    end += base::DecodeUtf8(value.substr(end)).bytes;
  }
  return base::Printable(value.substr(0, end)) + (end < value.size() ? "…" : "");
}

}  // namespace msprobe::analysis::config_check
