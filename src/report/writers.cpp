#include "src/report/writers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/writer.h"
#include "src/report/render_json.h"

namespace msprobe::report {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20U;

// How a kind of csv file spells what csv leaves open.
struct Spelling {
  std::string_view line_end;
  bool shortest_numbers;
};
constexpr Spelling kSpreadsheet = {"\r\n", false};
constexpr Spelling kPandas = {"\n", true};

// Control characters become '_', as in a workbook, and bytes that belong to no character U+FFFD;
// line ends and tabs stay. Nearly every text has none of them.
std::string Cleaned(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const base::Utf8Char character = base::DecodeUtf8(text);
    const bool control = (character.code < 0x20 && character.code != '\t' &&
                          character.code != '\n' && character.code != '\r') ||
                         (character.code >= 0x7F && character.code < 0xA0);
    if (!character.valid) {
      clean += "\xEF\xBF\xBD";
    } else if (control) {
      clean += '_';
    } else {
      clean += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return clean;
}

void AppendText(std::string_view text, std::string& out) {
  std::string clean;
  if (std::any_of(text.begin(), text.end(), [](char c) {
        return (c >= 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F || c < 0;
      })) {
    clean = Cleaned(text);
    text = clean;
  }
  base::AppendCsvText(text, out);
}

void AppendCell(const Cell& cell, const Spelling& spelling, std::string& out) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      break;
    case CellKind::kText:
      AppendText(cell.text(), out);
      break;
    case CellKind::kInteger: {
      std::array<char, 24> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), cell.integer());
      out.append(digits.data(), static_cast<size_t>(end.ptr - digits.data()));
      break;
    }
    case CellKind::kNumber:
      if (spelling.shortest_numbers) {
        base::AppendPythonFloatRepr(cell.number(), out);
      } else {
        base::AppendGeneral(cell.number(), 16, out);
      }
      break;
    case CellKind::kBoolean:
      out += cell.boolean_text();
      break;
  }
}

template <typename Texts>
void AppendTexts(const Texts& texts, const Spelling& spelling, std::string& out) {
  bool is_first = true;
  for (const std::string_view text : texts) {
    if (!is_first) {
      out += ',';
    }
    is_first = false;
    AppendText(text, out);
  }
  out += spelling.line_end;
}

void AppendTableRow(const Table& table, size_t row, const Spelling& spelling, std::string& out) {
  const std::span<const Cell> cells = table.row(row);
  for (size_t column = 0; column < cells.size(); ++column) {
    if (column > 0) {
      out += ',';
    }
    AppendCell(cells[column], spelling, out);
  }
  out += spelling.line_end;
}

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

// Rows [first, end) as `append(row, out)` spells them, in pieces of a megabyte; `out` holds what is
// in front of them.
template <typename Append>
Status WriteRows(const std::filesystem::path& path, size_t first, size_t end, std::string out,
                 Append&& append) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  for (size_t row = first; row < end; ++row) {
    append(row, out);
    if (out.size() >= kFlushBytes) {
      MSP_RETURN_IF_ERROR(file.Write(out));
      out.clear();
    }
  }
  MSP_RETURN_IF_ERROR(file.Write(out));
  return file.Commit();
}

Status WriteCsvRows(const std::filesystem::path& path, const Table& table, size_t first, size_t end,
                    const Spelling& spelling, std::string out) {
  AppendTexts(table.columns(), spelling, out);
  return WriteRows(path, first, end, std::move(out), [&](size_t row, std::string& text) {
    AppendTableRow(table, row, spelling, text);
  });
}

}  // namespace

void AppendCsvRow(std::span<const std::string_view> cells, std::string& out) {
  AppendTexts(cells, kSpreadsheet, out);
}

Status WriteCsv(const std::filesystem::path& path, const Table& table) {
  return WriteCsvRows(path, table, 0, table.row_count(), kSpreadsheet,
                      std::string(base::kByteOrderMark));
}

Result<std::vector<std::filesystem::path>> WriteCsvParts(const std::filesystem::path& stem,
                                                         const Table& table, size_t rows_per_part) {
  const size_t rows = table.row_count();
  const size_t parts = rows <= rows_per_part ? 1 : (rows + rows_per_part - 1) / rows_per_part;
  std::vector<std::filesystem::path> written;
  for (size_t part = 0; part < parts; ++part) {
    std::filesystem::path path = stem;
    path += parts == 1 ? std::string(".csv") : fmt::format("_part_{}.csv", part + 1);
    const size_t first = part * rows_per_part;
    MSP_RETURN_IF_ERROR(
        WriteCsvRows(path, table, first, std::min(rows, first + rows_per_part), kPandas, {}));
    written.push_back(std::move(path));
  }
  return written;
}

std::string CsvText(const Table& table) {
  std::string out;
  AppendTexts(table.columns(), kSpreadsheet, out);
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendTableRow(table, row, kSpreadsheet, out);
  }
  return out;
}

Status WriteJsonLines(const std::filesystem::path& path, const Table& table) {
  return WriteRows(path, 0, table.row_count(), {},
                   [&](size_t row, std::string& text) { AppendJsonLine(table, row, text); });
}

std::string JsonLinesText(const Table& table) {
  std::string out;
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendJsonLine(table, row, out);
  }
  return out;
}

}  // namespace msprobe::report
