#include <string>

#include "src/base/files.h"
#include "src/json/writer.h"
#include "src/report/cell_json.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20U;

void AppendJsonLine(const Table& table, size_t row, std::string& out) {
  json::Writer writer(out, -1, json::Writer::NonFinite::kNull);
  const std::span<const Cell> cells = table.row(row);
  writer.BeginObject();
  for (size_t column = 0; column < cells.size(); ++column) {
    writer.Key(table.columns()[column]);
    PutCell(writer, cells[column]);
  }
  if (table.fill(row) != Fill::kNone) {
    writer.Member("highlight", table.fill(row) == Fill::kRed ? "red" : "yellow");
  }
  writer.EndObject();
  out += '\n';
}

}  // namespace

Status WriteJsonLines(const std::filesystem::path& path, const Table& table) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  std::string out;
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendJsonLine(table, row, out);
    if (out.size() >= kPieceBytes) {
      MSP_RETURN_IF_ERROR(file.Write(out));
      out.clear();
    }
  }
  MSP_RETURN_IF_ERROR(file.Write(out));
  return file.Commit();
}

std::string JsonLinesText(const Table& table) {
  std::string out;
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendJsonLine(table, row, out);
  }
  return out;
}

}  // namespace msprobe::report
