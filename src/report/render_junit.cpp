#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/strings.h"
#include "src/report/junit.h"
#include "src/report/render.h"

namespace msprobe::report {
namespace {

TestCase CaseOfVerdict(const Document& document, const Gate& gate) {
  const Verdict& verdict = document.verdict;
  TestCase one;
  one.name = document.command;
  one.seconds = document.seconds;
  one.type = base::AsciiLower(verdict.word);
  one.message = verdict.text;
  one.outcome = verdict.standing == Standing::kIncomplete ? CaseOutcome::kError
                : verdict.standing == Standing::kNothingCompared || gate.Fails(document)
                    ? CaseOutcome::kFailed
                    : CaseOutcome::kPassed;
  return one;
}

}  // namespace

std::string RenderJunit(const Document& document, const Gate& gate) {
  std::vector<TestCase> cases = document.cases;
  for (TestCase& one : cases) {
    if (one.outcome == CaseOutcome::kFailed && !gate.Counts(document, one.level)) {
      one.outcome = CaseOutcome::kPassed;
    }
  }
  // A report without a failure must not stand for an answer that no gate lets pass.
  const bool nothing = document.verdict.standing == Standing::kNothingCompared;
  const auto failed = [](const TestCase& one) { return one.outcome != CaseOutcome::kPassed; };
  if (cases.empty() || (nothing && std::none_of(cases.begin(), cases.end(), failed))) {
    cases.push_back(CaseOfVerdict(document, gate));
  }
  std::vector<JunitCase> written;
  written.reserve(cases.size());
  for (TestCase& one : cases) {
    written.push_back({std::move(one.name), one.seconds, one.outcome, std::move(one.type),
                       std::move(one.message), std::move(one.details)});
  }
  return JunitXml(document.command, written, document.seconds);
}

}  // namespace msprobe::report
