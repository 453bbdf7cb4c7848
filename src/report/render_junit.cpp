#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/render.h"
#include "src/report/sheet_xml.h"

namespace msprobe::report {
namespace {

// The line of code that a case is about: the first line "code FILE:LINE ..." of its details. Other
// lines may hold anything that looks like a place: names of calls, values, times.
std::optional<SourceLine> SourceOf(const TestCase& test) {
  constexpr std::string_view kCode = "code ";
  for (std::string_view line : base::Split(test.details, '\n')) {
    line = base::Trim(line);
    if (!line.starts_with(kCode)) {
      continue;
    }
    if (std::optional<SourceLine> source = SourceLineOf(base::Trim(line.substr(kCode.size())))) {
      return source;
    }
  }
  return std::nullopt;
}

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
  if (const std::optional<SourceLine> source = SourceOf(test)) {
    out += fmt::format(" file=\"{}\" line=\"{}\"", Escape(source->file, true), source->line);
  }
  if (test.outcome == CaseOutcome::kPassed) {
    return out + "/>\n";
  }
  return out + fmt::format(">\n   <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n  </testcase>\n",
                           test.outcome == CaseOutcome::kError ? "error" : "failure",
                           Escape(test.type, true),
                           Escape(test.message.empty() ? test.type : test.message, true),
                           Escape(test.details, false));
}

bool Fails(const TestCase& test, const Document& document, const Gate& gate) {
  const auto counts = [&](const std::string& level) { return gate.Counts(document, level); };
  return counts(test.level) || (gate.asks() && std::any_of(test.further_levels.begin(),
                                                           test.further_levels.end(), counts));
}

// With the exit code of a script.
bool EndedOtherwise(const Document& document, const Gate& gate) {
  return document.exit_code != static_cast<int>(ExitClass::kDone) &&
         document.exit_code != static_cast<int>(Judge(document, gate));
}

// What the exit code requires of the report: at least one error, at least one failure, or (if a
// gate passed) neither. Without a gate the cases stay as they are.
CaseOutcome OutcomeOf(const Document& document, const Gate& gate) {
  const ExitClass judged = Judge(document, gate);
  return judged == ExitClass::kFailed || EndedOtherwise(document, gate) ? CaseOutcome::kError
         : judged == ExitClass::kFindings ||
                 document.verdict.outcome == AnswerOutcome::kNothingCompared
             ? CaseOutcome::kFailed
             : CaseOutcome::kPassed;
}

TestCase CaseOfVerdict(const Document& document, const Gate& gate, CaseOutcome outcome) {
  const Verdict& verdict = document.verdict;
  TestCase test;
  test.name = document.command;
  test.seconds = document.seconds;
  test.type = base::AsciiLower(verdict.word);
  test.message = outcome == CaseOutcome::kFailed && gate.asks() ? gate.Reason(document)
                 : EndedOtherwise(document, gate)
                     ? fmt::format("exit code {}; {}", document.exit_code, verdict.text)
                     : verdict.text;
  test.outcome = outcome;
  return test;
}

// The cases as the gate judges them: they agree with the exit code.
std::vector<TestCase> JudgedCases(const Document& document, const Gate& gate) {
  std::vector<TestCase> cases = document.cases;
  const CaseOutcome needed = OutcomeOf(document, gate);
  for (TestCase& test : cases) {
    if ((gate.asks() && needed == CaseOutcome::kPassed) || !Fails(test, document, gate)) {
      test.outcome = CaseOutcome::kPassed;
    } else if (gate.asks() && needed == CaseOutcome::kFailed &&
               test.outcome == CaseOutcome::kError) {
      test.outcome = CaseOutcome::kFailed;  // an error is for what ends with kFailed
    }
  }
  const auto tells = [&](const TestCase& test) {
    return test.outcome == needed || test.outcome == CaseOutcome::kError;
  };
  if (cases.empty() ||
      (needed != CaseOutcome::kPassed && std::none_of(cases.begin(), cases.end(), tells))) {
    cases.push_back(CaseOfVerdict(document, gate, needed));
  }
  return cases;
}

// For GitHub's workflow commands; `in_property`: in front of the "::". A terminal may show them.
std::string EscapedForGithub(std::string_view text, bool in_property) {
  std::string out = base::ReplaceAll(base::Printable(text, "\n"), "%", "%25");
  out = base::ReplaceAll(out, "\r", "%0D");
  out = base::ReplaceAll(out, "\n", "%0A");
  if (in_property) {
    out = base::ReplaceAll(out, ":", "%3A");
    out = base::ReplaceAll(out, ",", "%2C");
  }
  return out;
}

}  // namespace

std::string RenderGithubAnnotations(const Document& document, const Gate& gate,
                                    std::string_view workspace) {
  constexpr size_t kMost = 50;  // GitHub shows ten of a step
  std::string text;
  size_t number = 0;
  for (const TestCase& test : JudgedCases(document, gate)) {
    if (test.outcome == CaseOutcome::kPassed || ++number > kMost) {
      continue;
    }
    std::string title = fmt::format("msprobe {}: {}", document.command, test.name);
    std::string place;
    if (const std::optional<SourceLine> source = SourceOf(test)) {
      std::string_view file = source->file;
      // The page of a pull request shows what lies in the repository.
      const std::string_view root = workspace.substr(0, workspace.find_last_not_of('/') + 1);
      if (!root.empty() && file.starts_with(root) && file.substr(root.size()).starts_with('/')) {
        file.remove_prefix(std::min(file.find_first_not_of('/', root.size()), file.size()));
      }
      place = fmt::format("file={},line={},", EscapedForGithub(file, true), source->line);
    }
    const std::string& message = test.message.empty() ? test.type : test.message;
    text += fmt::format("::{} {}title={}::{}\n", document.exit_code == 0 ? "warning" : "error",
                        place, EscapedForGithub(title, true), EscapedForGithub(message, false));
  }
  if (number > kMost) {
    text += fmt::format("::notice title=msprobe {}::and {} more; --junit FILE lists them all\n",
                        EscapedForGithub(document.command, true), number - kMost);
  }
  return text;
}

std::string RenderJunit(const Document& document, const Gate& gate) {
  const std::vector<TestCase> cases = JudgedCases(document, gate);
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
