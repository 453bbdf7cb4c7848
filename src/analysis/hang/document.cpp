// The answer: one sentence about the cause, all findings, how far the ranks are, and for a page the
// map of ranks by calls.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/hang/hang.h"
#include "src/base/strings.h"
#include "src/report/advice.h"
#include "src/report/table.h"

namespace msprobe::analysis::hang {
namespace {

using report::Cell;

constexpr size_t kShownRows = 12;

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.number = static_cast<double>(findings.rows.size());
  verdict.unit = "findings";
  const auto first = [&findings] { return findings.rows.front().text; };
  if (findings.calls == 0) {
    verdict.Say("NOTHING RECORDED", "the recordings hold no call", report::Tone::kCaution,
                report::AnswerOutcome::kNothingCompared);
  } else if (findings.is_mismatch) {
    verdict.Say("MISMATCH", first(), report::Tone::kBad, report::AnswerOutcome::kFindings);
  } else if (findings.is_hang) {
    verdict.Say("HANG", first(), report::Tone::kBad, report::AnswerOutcome::kFindings);
  } else if (findings.unfinished > 0) {
    verdict.Say("NO HANG",
                fmt::format("all ranks entered, none finished: {} of {}",
                            base::Plural(findings.unfinished, "call"),
                            base::Plural(findings.ranks, "rank")),
                report::Tone::kCaution);
  } else {
    verdict.Say(
        "NO HANG",
        fmt::format("every rank entered the calls of the others ({} of {})",
                    base::Plural(findings.calls, "call"), base::Plural(findings.ranks, "rank")),
        report::Tone::kGood);
  }
  return verdict;
}

report::DataTable FindingTable(const Findings& findings) {
  report::Table table("findings",
                      {"Kind", "Rank", "Group", "Sequence", "What", "Code of the others"});
  for (const Finding& row : findings.rows) {
    table.AddRow(std::vector<Cell>{Cell::Text(KindName(row.kind)), Cell::Integer(row.rank),
                                   table.KeepText(row.group),
                                   row.sequence < 0 ? Cell() : Cell::Integer(row.sequence),
                                   table.KeepText(row.what), table.KeepText(row.code)});
  }
  report::DataTable rows{std::move(table)};
  rows.display_limit.items = kShownRows;
  return rows;
}

report::List Counts(const Findings& findings) {
  report::List counts{report::ListKind::kFacts, {}};
  counts.items.push_back({"ranks", base::FormatCount(findings.ranks)});
  counts.items.push_back({"groups", base::FormatCount(findings.groups)});
  counts.items.push_back({"calls", base::FormatCount(findings.calls)});
  counts.items.push_back({"not finished", base::FormatCount(findings.unfinished)});
  return counts;
}

// Colours: a finished call is calm, an unfinished one stands out, a missing one most.
report::Map MapOf(const CallMap& of) {
  constexpr double kUnfinishedValue = 1;
  constexpr double kMissingValue = 1000;
  report::Map map;
  map.columns = of.calls;
  for (const int64_t rank : of.ranks) {
    map.rows.push_back(fmt::format("rank {}", rank));
  }
  for (size_t row = 0; row < of.states.size(); ++row) {
    for (size_t column = 0; column < of.states[row].size(); ++column) {
      const CallMap::State state = of.states[row][column];
      if (state == CallMap::State::kUnknown) {
        continue;
      }
      report::Map::Cell& cell = map.items.emplace_back();
      cell.row = static_cast<uint32_t>(row);
      cell.column = static_cast<uint32_t>(column);
      cell.value = state == CallMap::State::kMissing      ? kMissingValue
                   : state == CallMap::State::kUnfinished ? kUnfinishedValue
                                                          : 0;
      const char* const word = state == CallMap::State::kMissing      ? "did not enter"
                               : state == CallMap::State::kUnfinished ? "waits in"
                                                                      : "finished";
      cell.tip = fmt::format("rank {} {} {}", of.ranks[row], word, of.calls[column]);
    }
  }
  return map;
}

}  // namespace

report::Document MakeDocument(const Findings& findings) {
  report::Document document;
  document.command = "hang";
  document.action = "read";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "hang", findings.is_hang);
  report::SetFound(document.levels, "mismatch", findings.is_mismatch);
  document.warnings = findings.warnings;
  if (!findings.rows.empty()) {
    document.Add("Findings, causes first", FindingTable(findings));
  }
  document.Add("Counts", Counts(findings));
  document.AddFiles(findings.files);
  if (!findings.map.states.empty()) {
    report::PageView& page = document.page.emplace();
    page.Add(fmt::format("Ranks by calls of group {}", findings.map.group),
             "red: did not enter; orange: waits", MapOf(findings.map));
    page.Add("Findings, causes first", "", FindingTable(findings));
    page.Add("Counts", "", Counts(findings));
  }
  return document;
}

}  // namespace msprobe::analysis::hang
