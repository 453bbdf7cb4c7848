#include "src/analysis/recheck/result_table.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

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

}  // namespace msprobe::analysis::recheck
