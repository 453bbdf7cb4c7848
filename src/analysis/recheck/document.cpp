// The answer as a table for spreadsheets, and as a document for people and programs.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/recheck/recheck.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/writers.h"

namespace msprobe::analysis::recheck {

namespace {

using report::Cell;

constexpr std::array<const char*, 2> kSideNames = {"dump", "bench"};

Cell NumberCell(report::Table& table, double number) {
  return std::isfinite(number) ? Cell::Number(number)
                               : table.KeepText(std::isnan(number) ? "nan"
                                                : number > 0       ? "inf"
                                                                   : "-inf");
}

void AddRow(const Answer& answer, const CheckedCall& call, size_t side, report::Table& table) {
  const CallVerdict& verdict = *call.sides[side];
  const Judgement* worst = verdict.worst();
  std::vector<Cell> cells = {
      table.KeepText(call.name),
      call.step ? Cell::Integer(*call.step) : Cell(),
      call.rank ? Cell::Integer(*call.rank) : Cell(),
      table.KeepText(verdict.operation),
      Cell::Text(VerdictName(verdict.verdict)),
      worst != nullptr ? NumberCell(table, verdict.ratio) : Cell(),
      worst != nullptr ? table.KeepText(worst->tensor) : Cell(),
      worst != nullptr ? table.KeepText(worst->element) : Cell(),
      worst != nullptr ? NumberCell(table, worst->captured) : Cell(),
      worst != nullptr ? NumberCell(table, worst->exact) : Cell(),
      worst != nullptr ? NumberCell(table, worst->bound) : Cell(),
      worst != nullptr ? Cell::Integer(static_cast<int64_t>(worst->beyond)) : Cell(),
      worst != nullptr ? Cell::Integer(static_cast<int64_t>(worst->elements)) : Cell(),
      table.KeepText(base::Printable(verdict.reason))};
  if (answer.has_bench) {
    cells.insert(cells.begin() + 3, Cell::Text(kSideNames[side]));
    cells.push_back(Cell::Text(WrongSideName(call.wrong_side())));
  }
  table.AddRow(cells,
               verdict.verdict == Verdict::kBeyond ? report::Fill::kRed : report::Fill::kNone);
}

}  // namespace

report::Table MakeTable(const Answer& answer) {
  std::vector<std::string> columns = {"Call",  "Step",   "Rank",     "Operator", "Verdict",
                                      "Ratio", "Tensor", "Element",  "Captured", "Exact",
                                      "Bound", "Beyond", "Elements", "Reason"};
  if (answer.has_bench) {
    columns.insert(columns.begin() + 3, "Side");
    columns.emplace_back("Wrong Side");
  }
  report::Table table("recheck", std::move(columns));
  for (const CheckedCall& call : answer.calls) {
    for (size_t side = 0; side < call.sides.size(); ++side) {
      if (call.sides[side]) {
        AddRow(answer, call, side, table);
      }
    }
  }
  return table;
}

Status WriteTables(const Options& options, base::ThreadPool& pool, Answer& answer) {
  if (options.output.empty()) {
    return {};
  }
  const report::Table table = MakeTable(answer);
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  const std::filesystem::path stem =
      options.output / fmt::format("recheck_result_{}", stamp.text());
  for (const std::string& format : options.formats) {
    if (format == "xlsx") {
      const std::filesystem::path path = stem.string() + ".xlsx";
      const std::array<const report::Table*, 1> sheets = {&table};
      MSP_RETURN_IF_ERROR(report::WriteXlsx(path, sheets, {}, pool));
      answer.files.push_back(path);
    } else if (format == "csv") {
      MSP_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files,
                           report::WriteCsvParts(stem, table));
      answer.files.insert(answer.files.end(), files.begin(), files.end());
    }
  }
  return {};
}

namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownCalls = 10;
constexpr size_t kShownReasons = 6;

std::string RatioText(double ratio) {
  return std::isinf(ratio) ? "inf" : fmt::format("{:.3g}", ratio);
}

// As people read it; WrongSideName() is for programs.
std::string_view WrongText(WrongSide side) {
  switch (side) {
    case WrongSide::kDump:
      return "test";
    case WrongSide::kBench:
      return "reference";
    default:
      return WrongSideName(side);
  }
}

std::string SideText(WrongSide side) {
  switch (side) {
    case WrongSide::kDump:
      return "the test dump";
    case WrongSide::kBench:
      return "the reference";
    case WrongSide::kBoth:
      return "both sides";
    case WrongSide::kNone:
    case WrongSide::kUnknown:
      break;
  }
  return "one side; the other cannot be checked";
}

report::Verdict MakeVerdict(const Answer& answer) {
  report::Verdict verdict;
  verdict.unit = "calls";
  verdict.number = static_cast<double>(answer.beyond);
  const uint64_t checked = answer.within + answer.beyond;
  if (checked == 0) {
    verdict.word = "NOTHING CHECKED";
    verdict.text = answer.calls.empty()
                       ? "NOTHING CHECKED: there is no such call"
                       : fmt::format("NOTHING CHECKED: none of {} can be recomputed",
                                     Plural(answer.not_checkable, "call"));
    verdict.tone = Tone::kBad;
    verdict.outcome = AnswerOutcome::kNothingCompared;
  } else if (answer.beyond == 0) {
    verdict.Say("WITHIN BOUNDS",
                fmt::format("{} recomputed, all as exact as their arithmetic allows",
                            Plural(checked, "call")),
                Tone::kGood);
  } else {
    const auto first =
        std::find_if(answer.calls.begin(), answer.calls.end(),
                     [](const CheckedCall& call) { return call.verdict() == Verdict::kBeyond; });
    verdict.word = "WRONG";
    verdict.text = fmt::format("WRONG: {} of {} beyond what rounding explains, {} first",
                               FormatCount(answer.beyond), Plural(checked, "call"),
                               base::Printable(first->name));
    if (answer.has_bench) {
      verdict.text += fmt::format(" ({})", SideText(first->wrong_side()));
    }
    verdict.tone = Tone::kBad;
    verdict.outcome = AnswerOutcome::kFindings;
  }
  if (answer.is_incomplete) {
    verdict.outcome = AnswerOutcome::kIncomplete;
  }
  return verdict;
}

// Whether names alone do not tell calls apart: those of several steps or ranks were checked.
bool HasSeveral(const Answer& answer, std::optional<int64_t> CheckedCall::*number) {
  return std::any_of(answer.calls.begin(), answer.calls.end(), [&](const CheckedCall& call) {
    return call.*number != answer.calls.front().*number;
  });
}

Section BeyondSection(const Answer& answer) {
  std::vector<std::string> columns = {"Call",     "Ratio", "Tensor", "Element",
                                      "Captured", "Exact", "Bound"};
  if (answer.has_bench) {
    columns.insert(columns.begin() + 1, "Wrong");
  }
  std::vector<std::optional<int64_t> CheckedCall::*> places;  // a column each, behind the name
  if (HasSeveral(answer, &CheckedCall::rank)) {
    places.push_back(&CheckedCall::rank);
    columns.insert(columns.begin() + 1, "Rank");
  }
  if (HasSeveral(answer, &CheckedCall::step)) {
    places.push_back(&CheckedCall::step);
    columns.insert(columns.begin() + 1, "Step");
  }
  const bool has_layers = std::any_of(answer.calls.begin(), answer.calls.end(),
                                      [](const CheckedCall& call) { return !call.layer.empty(); });
  if (has_layers) {
    columns.emplace_back("Layer");
  }
  report::Table table("beyond", std::move(columns));
  for (const CheckedCall& call : answer.calls) {
    for (const std::optional<CallVerdict>& side : call.sides) {
      if (!side || side->verdict != Verdict::kBeyond) {
        continue;
      }
      const Judgement* worst = side->worst();
      std::vector<Cell> cells = {table.KeepText(base::Printable(call.name)),
                                 table.KeepText(RatioText(side->ratio)),
                                 table.KeepText(base::Printable(worst->tensor)),
                                 table.KeepText(worst->element),
                                 table.KeepText(fmt::format("{:.9g}", worst->captured)),
                                 table.KeepText(fmt::format("{:.9g}", worst->exact)),
                                 table.KeepText(fmt::format("{:.2g}", worst->bound))};
      if (has_layers) {
        cells.push_back(table.KeepText(base::Printable(call.layer)));
      }
      if (answer.has_bench) {
        cells.insert(cells.begin() + 1, Cell::Text(WrongText(call.wrong_side())));
      }
      for (const auto place : places) {
        const std::optional<int64_t>& number = call.*place;
        cells.insert(cells.begin() + 1, number ? Cell::Integer(*number) : Cell());
      }
      table.AddRow(cells);
    }
  }
  return report::MakeSection(
      "Beyond their bounds, in order of execution",
      report::DataTable{
          .table = std::move(table), .display_limit = {kShownCalls}, .names_rows = true});
}

bool RoundsFactors(const CheckedCall& call) {
  return call.verdict() == Verdict::kWithin &&
         std::any_of(call.sides.begin(), call.sides.end(),
                     [](const auto& side) { return side && side->rounds_factors; });
}

// Calls that are as exact as 16-bit arithmetic, TF32 or HF32 allow, and less exact than sums in
// float32 are.
Section LessExactSection(const Answer& answer) {
  std::map<std::string, uint64_t> counts;
  for (const CheckedCall& call : answer.calls) {
    if (call.verdict() == Verdict::kWithin && call.is_less_exact()) {
      for (const std::optional<CallVerdict>& side : call.sides) {
        if (side && side->is_less_exact) {
          ++counts[side->operation + ", " + side->reason];
          break;
        }
      }
    }
  }
  List list{ListKind::kAligned, {}, {kShownReasons}};
  for (const auto& [what, count] : counts) {
    list.items.push_back({Plural(count, "call"), base::Printable(what)});
  }
  return report::MakeSection("Less exact than sums in float32", std::move(list));
}

// Why calls cannot be checked, the most frequent reason first.
Section UncheckedSection(const Answer& answer) {
  std::map<std::string, uint64_t> counts;
  for (const CheckedCall& call : answer.calls) {
    if (call.verdict() == Verdict::kNotCheckable) {
      ++counts[call.checked().reason];
    }
  }
  std::vector<std::pair<std::string, uint64_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  List list{ListKind::kAligned, {}, {kShownReasons}};
  for (const auto& [reason, count] : reasons) {
    list.items.push_back({Plural(count, "call"), base::Printable(reason)});
  }
  return report::MakeSection("Not checkable", std::move(list));
}

std::vector<report::TestCase> CasesOf(const Answer& answer) {
  std::vector<report::TestCase> cases;
  for (const CheckedCall& call : answer.calls) {
    if (call.verdict() != Verdict::kBeyond) {
      continue;
    }
    report::TestCase& test = cases.emplace_back();
    test.name = call.name;
    test.Fail("beyond", "beyond its bound",
              fmt::format("{} times what rounding explains", RatioText(call.checked().ratio)));
  }
  if (cases.empty() && answer.within > 0) {
    cases.push_back({fmt::format("all {}", Plural(answer.within, "call"))});
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Answer& answer) {
  report::Document document;
  document.command = "recheck";
  document.verdict = MakeVerdict(answer);
  document.levels = report::OutcomesOf(kGateLevels);
  // What could not be read may be anything: no gate passes beside it.
  report::SetFound(document.levels, "beyond", answer.beyond > 0 || answer.unreadable > 0);
  report::SetFound(document.levels, "unchecked", answer.not_checkable > 0 || answer.unreadable > 0);
  if (answer.beyond > 0) {
    document.sections.push_back(BeyondSection(answer));
    document.next.emplace_back(answer.has_bench ? "recheck.wrong_side" : "recheck.wrong");
  }
  if (answer.less_exact > 0) {
    document.sections.push_back(LessExactSection(answer));
    if (std::any_of(answer.calls.begin(), answer.calls.end(), RoundsFactors)) {
      document.next.emplace_back("recheck.rounds_factors");
    }
  }
  if (answer.not_checkable > 0) {
    document.sections.push_back(UncheckedSection(answer));
  }
  document.AddFiles(answer.files);
  document.warnings = answer.warnings;
  document.cases = CasesOf(answer);
  document.bytes = answer.size_bytes;
  document.seconds = answer.seconds;
  document.action = "rechecked";
  return document;
}

}  // namespace msprobe::analysis::recheck
