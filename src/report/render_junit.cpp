#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/render.h"
#include "src/report/sheet_xml.h"

namespace msprobe::report {
namespace {

// Text for XML content and attributes; line breaks and tabs, which an attribute would lose, become
// blanks there.
std::string Escape(std::string_view text, bool in_attribute) {
  std::string out = internal::EscapedXml(text);
  if (in_attribute) {
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  }
  return out;
}

std::string CaseXml(std::string_view command, const TestCase& test) {
  std::string out = fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                Escape(command, true), Escape(test.name, true), test.seconds);
  if (test.outcome == CaseOutcome::kPassed) {
    return out + "/>\n";
  }
  return out + fmt::format(">\n   <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n  </testcase>\n",
                           test.outcome == CaseOutcome::kError ? "error" : "failure",
                           Escape(test.type, true), Escape(test.message, true),
                           Escape(test.details, false));
}

TestCase CaseOfVerdict(const Document& document, const Gate& gate) {
  const Verdict& verdict = document.verdict;
  TestCase test;
  test.name = document.command;
  test.seconds = document.seconds;
  test.type = base::AsciiLower(verdict.word);
  test.message = verdict.text;
  test.outcome = verdict.standing == Standing::kIncomplete ? CaseOutcome::kError
                 : verdict.standing == Standing::kNothingCompared || gate.Fails(document)
                     ? CaseOutcome::kFailed
                     : CaseOutcome::kPassed;
  return test;
}

}  // namespace

std::string RenderJunit(const Document& document, const Gate& gate) {
  std::vector<TestCase> cases = document.cases;
  for (TestCase& test : cases) {
    if (test.outcome == CaseOutcome::kFailed && !gate.Counts(document, test.level)) {
      test.outcome = CaseOutcome::kPassed;
    }
  }
  // A report without a failure must not stand for an answer that no gate lets pass.
  const bool nothing = document.verdict.standing == Standing::kNothingCompared;
  const auto failed = [](const TestCase& test) { return test.outcome != CaseOutcome::kPassed; };
  if (cases.empty() || (nothing && std::none_of(cases.begin(), cases.end(), failed))) {
    cases.push_back(CaseOfVerdict(document, gate));
  }
  const auto count = [&](CaseOutcome outcome) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const TestCase& test) { return test.outcome == outcome; });
  };
  std::string body;
  for (const TestCase& test : cases) {
    body += CaseXml(document.command, test);
  }
  const std::string totals =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\"", cases.size(),
                  count(CaseOutcome::kFailed), count(CaseOutcome::kError), document.seconds);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n <testsuite name=\"msprobe "
      "{1}\" {0}>\n{2}"
      " </testsuite>\n</testsuites>\n",
      totals, Escape(document.command, true), body);
}

}  // namespace msprobe::report
