#include "src/analysis/inspect/table_contents.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/inspect/cells.h"
#include "src/report/readers.h"

namespace msprobe::analysis::inspect {

Result<Contents> InspectTable(const Options& options) {
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(options.path));
  Contents result;
  result.table = report::Table("contents", table.columns());
  RowFilter filter(options, result);
  std::vector<report::Cell> cells;
  for (size_t i = 0; i < table.row_count(); ++i) {
    const std::span<const report::Cell> row = table.row(i);
    const std::string first = row.empty() ? "" : report::CellText(row[0]);
    if (!filter.Matches(first) || !filter.TakePlace()) {
      continue;
    }
    cells.clear();
    for (const report::Cell& cell : row) {
      cells.push_back(result.table.KeepText(report::CellText(cell)));
    }
    result.table.AddRow(cells);
  }
  result.summary.push_back(fmt::format("{}: table", options.path.string()));
  result.summary.push_back(fmt::format("{}, {}", Counted(table.row_count(), "row"),
                                       Counted(table.columns().size(), "column")));
  return result;
}

}  // namespace msprobe::analysis::inspect
