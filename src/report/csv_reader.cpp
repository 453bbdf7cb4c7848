#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/report/readers.h"
#include "src/report/table_builder.h"

namespace msprobe::report {
namespace {

Status ReadRows(std::string_view text, size_t max_cells, internal::TableBuilder& builder) {
  using Row = base::CsvTokenizer::Row;
  // One more than fits: the builder then refuses the table, whatever the row would still hold.
  base::CsvTokenizer rows(text, {.most_fields = max_cells < SIZE_MAX ? max_cells + 1 : SIZE_MAX});
  while (!builder.full()) {
    switch (rows.Next()) {
      case Row::kEnd:
        return {};
      case Row::kOpenQuote:
        return BadFormatError("unterminated quoted cell");
      case Row::kTextAfterQuote:
        return BadFormatError("text follows the closing quote of a cell");
      case Row::kFields:
        break;
    }
    for (size_t column = 0; column < rows.fields().size(); ++column) {
      builder.Add(column, Cell::Text(builder.Keep(rows.fields()[column])));
    }
    builder.EndRow();
  }
  return {};
}

}  // namespace

Result<Table> ReadCsvText(std::string_view text, std::string name, const ReadLimits& limits) {
  ReadLimits left = limits;
  internal::TableBuilder builder(left);
  MSP_RETURN_IF_ERROR(ReadRows(base::WithoutByteOrderMark(text), limits.cells, builder),
                      fmt::format("row {}", builder.row_count() + 1));
  return builder.Finish(std::move(name));
}

Result<Table> ReadCsv(const std::filesystem::path& path, const ReadLimits& limits) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  if (file.bytes().size() > limits.member_bytes) {
    return UnsupportedError(fmt::format("{} has {} bytes, more than the limit of {} for csv files",
                                        path.string(), file.bytes().size(), limits.member_bytes));
  }
  Result<Table> table = ReadCsvText(file.text(), path.stem().string(), limits);
  if (!table.ok()) {
    return std::move(table).status().AddContext(fmt::format("cannot read {}", path.string()));
  }
  return table;
}

}  // namespace msprobe::report
