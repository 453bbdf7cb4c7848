#include "src/analysis/kernel_dump/vector_table.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/writers.h"

namespace msprobe::analysis::kernel_dump {
namespace {

using report::Cell;

constexpr std::string_view kUnknown = "NaN";

std::vector<Measure> ChosenMeasures(const VectorOptions& options) {
  std::vector<Measure> measures = options.measures;
  for (size_t i = 0; options.measures.empty() && i < kMeasureCount; ++i) {
    measures.push_back(static_cast<Measure>(i));
  }
  return measures;
}

void AddSide(const VectorRow::Side& side, report::Table& table, std::vector<Cell>& cells) {
  cells.push_back(table.KeepText(side.op_name));
  cells.push_back(table.KeepText(side.dtype.empty() ? kUnknown : side.dtype));
  cells.push_back(table.KeepText(side.address ? fmt::format("{}", *side.address) : kUnknown));
}

std::string_view OverflowText(const std::optional<bool>& overflow) {
  return !overflow ? kUnknown : *overflow ? "YES" : "NO";
}

}  // namespace

Result<std::filesystem::path> WriteVectorTable(const VectorOptions& options,
                                               const std::vector<VectorRow>& rows) {
  const std::vector<Measure> measures = ChosenMeasures(options);
  std::vector<std::string> columns = {"Index",       "OpType",      "NPUDump",  "DataType",
                                      "Address",     "GroundTruth", "DataType", "Address",
                                      "TensorIndex", "Shape"};
  if (options.overflow) {
    columns.emplace_back("OverFlow");
  }
  for (const Measure measure : measures) {
    columns.emplace_back(MeasureName(measure));
  }
  columns.emplace_back("CompareFailReason");
  report::Table table("result", std::move(columns));
  for (const VectorRow& row : rows) {
    std::vector<Cell> cells;
    cells.push_back(Cell::Integer(static_cast<int64_t>(row.index)));
    cells.push_back(
        table.KeepText(row.op_type.empty() || row.tensor.empty() ? kUnknown : row.op_type));
    AddSide(row.mine, table, cells);
    AddSide(row.golden, table, cells);
    cells.push_back(table.KeepText(row.tensor.empty() ? kUnknown : row.tensor));
    cells.push_back(table.KeepText(row.mine.dtype.empty()
                                       ? std::string(kUnknown)
                                       : fmt::format("[{}]", fmt::join(row.shape, ","))));
    if (options.overflow) {
      cells.push_back(Cell::Text(OverflowText(row.overflow)));
    }
    for (const Measure measure : measures) {
      cells.push_back(table.KeepText(row.measures ? MeasureText(*row.measures, measure)
                                                  : std::string(kUnknown)));
    }
    cells.push_back(table.KeepText(base::Join(row.reasons, ",")));
    table.AddRow(cells);
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  MSP_ASSIGN_OR_RETURN(
      const std::vector<std::filesystem::path> files,
      report::WriteCsvParts(options.output / fmt::format("result_{}", stamp.text()), table,
                            SIZE_MAX));
  return files.front();
}

}  // namespace msprobe::analysis::kernel_dump
