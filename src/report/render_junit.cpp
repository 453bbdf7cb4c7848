#include <algorithm>
#include <charconv>
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

std::optional<SourceLine> SourceLineOf(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  for (size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':', colon + 1)) {
    const size_t end = std::min(text.find_first_not_of("0123456789", colon + 1), text.size());
    const size_t digits = end - colon - 1;
    if (colon > 0 && digits > 0 && digits <= kMostDigits &&
        (end == text.size() || text[end] == ' ')) {
      SourceLine source{std::string(text.substr(0, colon)), 0};
      std::from_chars(text.data() + colon + 1, text.data() + end, source.line);
      return source;
    }
    if (text.substr(0, colon).find(" in ") != std::string_view::npos) {
      break;  // behind the place stands code
    }
  }
  return std::nullopt;
}

namespace {

Provenance& RunProvenance() {
  static auto* const provenance = new Provenance();
  return *provenance;
}

}  // namespace

void SetProvenance(Provenance provenance) { RunProvenance() = std::move(provenance); }
const Provenance& ThisRun() { return RunProvenance(); }

namespace {

// The line of code that a case is about: the first that its details name.
std::optional<SourceLine> SourceOf(const TestCase& test) {
  for (std::string_view line : base::Split(test.details, '\n')) {
    line = base::Trim(line);
    line.remove_prefix(line.starts_with("code ") ? 5 : 0);
    if (std::optional<SourceLine> source = SourceLineOf(base::Trim(line))) {
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
         : judged == ExitClass::kFindings || document.verdict.standing == Standing::kNothingCompared
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

// For GitHub's workflow commands; `in_property`: in front of the "::".
std::string EscapedForGithub(std::string_view text, bool in_property) {
  std::string out = base::ReplaceAll(text, "%", "%25");
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
  std::string text;
  for (const TestCase& test : JudgedCases(document, gate)) {
    if (test.outcome == CaseOutcome::kPassed) {
      continue;
    }
    std::string title = fmt::format("msprobe {}: {}", document.command, test.name);
    std::string place;
    if (const std::optional<SourceLine> source = SourceOf(test)) {
      std::string_view file = source->file;
      // The page of a pull request shows what lies in the repository.
      if (!workspace.empty() && file.starts_with(workspace)) {
        file.remove_prefix(workspace.size());
        file.remove_prefix(std::min(file.find_first_not_of('/'), file.size()));
      }
      place = fmt::format("file={},line={},", EscapedForGithub(file, true), source->line);
    }
    const std::string& message = test.message.empty() ? test.type : test.message;
    text += fmt::format("::{} {}title={}::{}\n", document.exit_code == 0 ? "warning" : "error",
                        place, EscapedForGithub(base::Printable(title), true),
                        EscapedForGithub(base::Printable(message, "\n"), false));
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
