#include "src/analysis/monitor/diff/document.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {
namespace {

using base::Plural;
using report::Cell;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

std::string Where(const Divergence& divergence) {
  std::string text = base::Printable(ShownName(divergence.name));
  if (divergence.stage != 0) {
    text += fmt::format(" (stage {})", divergence.stage);
  }
  if (divergence.micro_step > 0) {
    text += fmt::format(" micro step {}", divergence.micro_step);
  }
  if (divergence.rank >= 0) {
    text += fmt::format(" rank {}", divergence.rank);
  }
  return text;
}

std::string Percent(double relative) {
  return std::isfinite(relative) ? fmt::format("{:.3g} %", relative * 100) : "not finite";
}

std::string Number(double value) {
  return IsNoNumber(value) ? "no tensor" : fmt::format("{:.6g}", value);
}

struct Totals {
  uint64_t compared = 0;
  uint64_t unequal = 0;
  uint64_t nan = 0;
};

Totals TotalsOf(const DiffResult& result) {
  Totals totals;
  for (const DiffLine& line : result.lines) {
    totals.compared += line.compared;
    totals.unequal += line.unequal;
    totals.nan += line.nan;
  }
  return totals;
}

report::Verdict MakeVerdict(const DiffResult& result) {
  report::Verdict verdict;
  const Totals totals = TotalsOf(result);
  const bool whole = result.only_a + result.only_b == 0 && result.unread_files == 0;
  const std::string all = fmt::format("{} of {}", Plural(totals.compared, "value"),
                                      Plural(result.lines.size(), "statistic"));
  if (const DiffLine* const first = result.first()) {
    const Divergence& at = *first->first;
    verdict.word = "DIFFERENT";
    verdict.text = fmt::format("The runs diverge at step {}: {} of {} {}: {} against {}, {} apart",
                               at.step, first->op, first->table, Where(at), Number(at.a),
                               Number(at.b), Percent(at.relative));
    verdict.number = static_cast<double>(at.step);
    verdict.unit = "step";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
    return verdict;
  }
  if (totals.compared == 0) {
    verdict.word = "NOTHING COMPARED";
    verdict.text = "NOTHING COMPARED: no value of one run has a partner in the other";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
    return verdict;
  }
  verdict.word = totals.unequal > 0 ? "CLOSE" : whole ? "IDENTICAL" : "EQUAL IN PART";
  verdict.text = totals.unequal > 0
                     ? fmt::format(
                           "CLOSE: all {} agree within the tolerance, {} of them not "
                           "exactly",
                           all, base::FormatCount(totals.unequal))
                     : fmt::format("{}: all {} are equal", verdict.word, all);
  if (totals.nan > 0) {
    verdict.text += fmt::format(", but {} NaN in both runs",
                                totals.nan == 1 ? "1 is" : base::FormatCount(totals.nan) + " are");
  }
  verdict.tone = whole && totals.nan == 0 ? Tone::kGood : Tone::kCaution;
  verdict.standing = whole && totals.nan == 0 ? Standing::kClean : Standing::kFindings;
  return verdict;
}

Section LinesSection(const DiffResult& result) {
  report::Table table("statistics", {"table", "statistic", "compared", "differ", "step",
                                     "first difference, largest difference"});
  for (const DiffLine& line : result.lines) {
    const Cell cells[] = {table.KeepText(line.table),
                          table.KeepText(line.op),
                          Cell::Integer(static_cast<int64_t>(line.compared)),
                          Cell::Integer(static_cast<int64_t>(line.divergent)),
                          line.first ? Cell::Integer(line.first->step) : Cell(),
                          line.first ? table.KeepText(fmt::format("{}, {}", Where(*line.first),
                                                                  Percent(line.worst->relative)))
                                     : Cell()};
    table.AddRow(cells);
  }
  Section section;
  report::DataTable data{std::move(table)};
  // Where nothing parts the verdict says it all.
  data.brief.items = result.first() == nullptr ? 0 : SIZE_MAX;
  section.blocks.emplace_back(std::move(data));
  return section;
}

Section NotesSection(const DiffResult& result) {
  List list{ListKind::kSentences, {}};
  if (result.reduced) {
    list.items.push_back({"", fmt::format("ranks: {} against {}; values are combined across ranks",
                                          result.ranks_a, result.ranks_b)});
  }
  if (result.only_a + result.only_b > 0) {
    list.items.push_back(
        {"", fmt::format("without a partner: {} of the first run, {} of the second",
                         Plural(result.only_a, "row"), Plural(result.only_b, "row"))});
  }
  for (const std::string& note : result.notes) {
    list.items.push_back({"", note});
  }
  Section section{"Notes", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

// A case per statistic of a table.
std::vector<report::TestCase> CasesOf(const DiffResult& result) {
  std::vector<report::TestCase> cases;
  for (const DiffLine& line : result.lines) {
    report::TestCase& test = cases.emplace_back();
    test.name = fmt::format("{} {}", line.table, line.op);
    if (line.first) {
      test.outcome = report::CaseOutcome::kFailed;
      test.level = "different";
      test.type = "different";
      test.message = fmt::format("{} of {} differ, first at step {}: {}, {} at most",
                                 line.divergent, Plural(line.compared, "value"), line.first->step,
                                 Where(*line.first), Percent(line.worst->relative));
    }
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const DiffResult& result) {
  report::Document document;
  document.command = "monitor diff";
  document.verdict = MakeVerdict(result);
  internal::TellUnread(result.unread_files, document.verdict);
  document.levels = report::OutcomesOf(kDiffLevels);
  report::SetFound(document.levels, "different", result.first() != nullptr);
  document.cases = CasesOf(result);
  document.sections.push_back(LinesSection(result));
  document.sections.push_back(NotesSection(result));
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
