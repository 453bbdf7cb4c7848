// The answer: the change, how sure that is, and the table of runs.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/bisect/bisect.h"
#include "src/analysis/bisect/sources.h"
#include "src/base/strings.h"
#include "src/report/advice.h"
#include "src/report/table.h"

namespace msprobe::analysis::bisect {
namespace {

using report::Cell;

constexpr size_t kShownRows = 40;
constexpr size_t kShownChanges = 8;

std::string ChangeText(const Findings& findings, size_t place) {
  const Change& change = findings.changes[place - 1];
  return findings.by == By::kCommits ? fmt::format("{} {}", change.id, change.text)
                                     : fmt::format("{}: {}", change.id, change.text);
}

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.number = static_cast<double>(findings.rows.size());
  verdict.unit = "runs";
  const auto text = [&findings](size_t i) { return ChangeText(findings, findings.culprits[i]); };
  const auto say = [&verdict](std::string_view word, const std::string& rest) {
    verdict.Say(word, rest, report::Tone::kBad, report::AnswerOutcome::kFindings);
  };
  switch (findings.answer) {
    case Answer::kCulprit:
      say("CULPRIT", findings.is_range
                         ? fmt::format("one of {}, from {} to {}",
                                       base::Plural(findings.culprits.size(), "change"), text(0),
                                       text(findings.culprits.size() - 1))
                         : text(0));
      break;
    case Answer::kPair:
      say("PAIR", fmt::format("{}, together with {}", text(0), text(1)));
      break;
    case Answer::kGroup: {
      std::vector<std::string> texts;
      for (size_t i = 0; i < findings.culprits.size(); ++i) {
        texts.push_back(text(i));
      }
      say("GROUP", base::Join(texts, ", together with "));
      break;
    }
    case Answer::kNotReproduced:
      verdict.Say("NOT REPRODUCED", findings.reason, report::Tone::kCaution,
                  report::AnswerOutcome::kNothingCompared);
      break;
    case Answer::kFlaky:
      verdict.Say("FLAKY", findings.reason, report::Tone::kCaution,
                  report::AnswerOutcome::kNothingCompared);
      break;
  }
  return verdict;
}

report::DataTable RunTable(const Findings& findings) {
  report::Table table("runs", {"Run", "Changes", "Why", "Verdict", "Program", "Check", "Seconds"});
  int64_t number = 0;
  for (const Row& row : findings.rows) {
    table.AddRow(std::vector<Cell>{Cell::Integer(++number), table.KeepText(row.changes),
                                   table.KeepText(row.why), table.KeepText(row.verdict),
                                   table.KeepText(row.program), table.KeepText(row.check),
                                   Cell::Number(row.seconds)});
  }
  report::DataTable rows{std::move(table)};
  rows.display_limit.items = kShownRows;
  rows.digits = 3;
  return rows;
}

report::DataTable ChangeTable(const Findings& findings) {
  report::Table table("changes", {"Number", "Change", "What"});
  for (size_t i = 0; i < findings.changes.size(); ++i) {
    table.AddRow(std::vector<Cell>{Cell::Integer(static_cast<int64_t>(i) + 1),
                                   table.KeepText(findings.changes[i].id),
                                   table.KeepText(findings.changes[i].text)});
  }
  report::DataTable rows{std::move(table)};
  rows.display_limit.items = kShownChanges;
  return rows;
}

report::List Facts(const Findings& findings) {
  report::List facts{report::ListKind::kFacts, {}};
  facts.items.push_back({"changes", base::FormatCount(findings.changes.size())});
  std::string runs = base::FormatCount(findings.rows.size());
  if (findings.repeats > 0) {
    runs = fmt::format("{}, of them {}", runs, base::Plural(findings.repeats, "repeat"));
  }
  facts.items.push_back({"runs", std::move(runs)});
  if (findings.resumed > 0) {
    facts.items.push_back({"from before", base::Plural(findings.resumed, "run")});
  }
  if (!findings.culprits.empty()) {
    facts.items.push_back({"probability",
                           fmt::format("{:.1f} %", 100 * findings.probability),
                           {},
                           findings.probability});
  }
  return facts;
}

}  // namespace

report::Document MakeDocument(const Findings& findings) {
  report::Document document;
  document.command = "bisect";
  document.action = "ran";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "culprit", !findings.culprits.empty());
  report::SetFound(document.levels, "unknown", findings.culprits.empty());
  document.warnings = findings.warnings;
  document.Add("", Facts(findings));
  if (!findings.last_bad_log.empty()) {
    if (const std::string tail = TailOf(findings.last_bad_log); !tail.empty()) {
      report::List said{report::ListKind::kFacts, {}};
      said.items.push_back({"a bad run said", tail});
      document.Add("", std::move(said));
    }
  }
  document.Add("Runs", RunTable(findings));
  document.Add("Changes", ChangeTable(findings));
  if (!findings.culprits.empty() && findings.by == By::kCommits) {
    document.Advise(
        report::Advice("bisect.commit", {findings.changes[findings.culprits.back() - 1].id}));
  } else if (findings.answer == Answer::kFlaky) {
    document.Advise(report::Advice("bisect.flaky"));
  } else if (findings.answer == Answer::kNotReproduced) {
    document.Advise(report::Advice("bisect.ends"));
  }
  document.AddFiles(findings.files);
  report::PageView& page = document.page.emplace();
  page.facts.push_back({base::FormatCount(findings.changes.size()), "changes"});
  page.facts.push_back({base::FormatCount(findings.rows.size()), "runs"});
  page.Add("Runs", "", RunTable(findings));
  page.Add("Changes", "", ChangeTable(findings));
  return document;
}

}  // namespace msprobe::analysis::bisect
