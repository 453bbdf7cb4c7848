#include "src/analysis/perf/operator_details.h"

#include <array>

#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr size_t kSideColumns = 5;

// One side's cells of the rows.
class DetailCells {
 public:
  DetailCells(const DetailSheet& sheet, const OperatorSide& side, report::Table& table,
              const PairOptions& options)
      : sheet_(sheet),
        side_(side),
        table_(table),
        texts_(side.profile().texts, table),
        details_(options.whole_texts) {}

  // Returns the amount.
  double Fill(uint32_t node, std::span<Cell, kSideColumns> cells) {
    if (node == kUnmatched) {
      cells[4] = Cell::Number(0);
      return 0;
    }
    const profile::Operator& operation = side_.operation(node);
    details_.Clear();
    const double amount = sheet_.measure(side_, node, queue_, details_);
    cells[0] = texts_(operation.name);
    cells[1] = texts_(operation.shapes);
    cells[2] = texts_(operation.types);
    cells[3] = table_.KeepText(details_.text());
    cells[4] = Cell::Number(amount);
    return amount;
  }

 private:
  const DetailSheet& sheet_;
  const OperatorSide& side_;
  report::Table& table_;
  TextCells texts_;
  std::vector<uint32_t> queue_;
  DetailText details_;
};

}  // namespace

report::FormattedTable FillDetails(const DetailSheet& sheet, const OperatorSide& base,
                                   const OperatorSide& comparison,
                                   std::span<const AlignedPair> pairs, const PairOptions& options) {
  const std::array<SheetColumn, 13> columns = {{{"Order Id", 10, kInteger},
                                                {"Operator Name", 30, kGeneral, true},
                                                {"Input Shape", 20, kInteger},
                                                {"Input Type", 20, kInteger},
                                                {sheet.details_column, 20, kInteger},
                                                {sheet.amount_column, 20, kFixed2},
                                                {"Operator Name", 30, kGeneral, true},
                                                {"Input Shape", 20, kInteger},
                                                {"Input Type", 20, kInteger},
                                                {sheet.details_column, 20, kInteger},
                                                {sheet.amount_column, 20, kFixed2},
                                                {sheet.difference_column, 20, kFixed2},
                                                {"Diff Ratio", 20, kPercent}}};
  report::FormattedTable result = MakeSheet(sheet.name, columns, {1, 5}, {6, 10}, options);
  result.table.Reserve(pairs.size());
  DetailCells base_cells(sheet, base, result.table, options);
  DetailCells comparison_cells(sheet, comparison, result.table, options);
  int64_t order = 0;
  for (const AlignedPair& pair : pairs) {
    std::array<Cell, 13> cells;
    const std::span<Cell, 13> row(cells);
    cells[0] = Cell::Integer(++order);
    const double base_amount = base_cells.Fill(pair.base, row.subspan<1, kSideColumns>());
    const double comparison_amount =
        comparison_cells.Fill(pair.comparison, row.subspan<1 + kSideColumns, kSideColumns>());
    const Difference difference = Differ(base_amount, comparison_amount);
    cells[11] = Cell::Number(difference.difference);
    cells[12] = Cell::Number(difference.ratio);
    result.table.AddRow(cells);
  }
  return result;
}

}  // namespace msprobe::analysis::perf
