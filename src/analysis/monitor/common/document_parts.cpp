#include "src/analysis/monitor/common/document_parts.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::monitor::internal {

report::Section FiguresSection(std::initializer_list<std::pair<std::string_view, double>> figures) {
  report::List list{report::ListKind::kFacts, {}, {0}};
  for (const auto& [label, number] : figures) {
    list.items.push_back(
        {std::string(label), fmt::format("{:.0f}", number), report::Tone::kPlain, number});
  }
  return report::MakeSection("", std::move(list));
}

report::Verdict Written(std::string text, uint64_t number, std::string_view unit) {
  report::Verdict verdict;
  verdict.word = "WRITTEN";
  verdict.tone = report::Tone::kStrong;
  verdict.text = std::move(text);
  verdict.number = static_cast<double>(number);
  verdict.unit = unit;
  return verdict;
}

void TellUnread(size_t files, report::Verdict& verdict) {
  if (files > 0) {
    verdict.text += fmt::format("; {} could not be read", base::Plural(files, "table"));
    verdict.tone = report::Tone::kBad;
    verdict.outcome = report::AnswerOutcome::kIncomplete;
  }
}

report::TestCase CaseOf(std::string name, std::string level, uint64_t count,
                        std::string_view noun) {
  report::TestCase test;
  test.name = std::move(name);
  if (count > 0) {
    test.outcome = report::CaseOutcome::kFailed;
    test.type = level;
    test.level = std::move(level);
    test.message = base::Plural(count, noun);
  }
  return test;
}

}  // namespace msprobe::analysis::monitor::internal
