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
#include "src/base/threads.h"
#include "src/base/utf8.h"
#include "src/json/writer.h"
#include "src/report/render_json.h"

namespace msprobe::report {
namespace {

constexpr size_t kRowsPerBlock = 2048;

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
  if (base::IsPlainCsvText(text)) {
    out += text;
    return;
  }
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

void AppendCsvRow(std::span<const Cell> cells, const Spelling& spelling, std::string& out) {
  for (size_t column = 0; column < cells.size(); ++column) {
    if (column > 0) {
      out += ',';
    }
    AppendCell(cells[column], spelling, out);
  }
  out += spelling.line_end;
}

void AppendJsonLine(const std::vector<std::string>& columns, std::span<const Cell> cells, Fill fill,
                    std::string& out) {
  json::Writer writer(out, -1, json::Writer::NonFinite::kNull);
  writer.BeginObject();
  for (size_t column = 0; column < cells.size(); ++column) {
    writer.Key(columns[column]);
    PutCell(writer, cells[column]);
  }
  if (fill != Fill::kNone) {
    writer.Member("highlight", fill == Fill::kRed ? "red" : "yellow");
  }
  writer.EndObject();
  out += '\n';
}

// `head`, then rows [first, end) as `append(cells, fill, out)` spells them, in blocks that the
// threads of `pool` (null: this one) make side by side. The bytes do not depend on their number.
template <typename Append>
Status WriteRows(const std::filesystem::path& path, const Table& table, size_t first, size_t end,
                 std::string_view head, base::ThreadPool* pool, const Append& append) {
  struct Block {
    Table made;
    std::string text;
  };
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(file.Write(head));
  const auto make = [&](size_t number, size_t /*worker*/, Block& block) {
    const size_t begin = first + number * kRowsPerBlock;
    const size_t count = std::min(kRowsPerBlock, end - begin);
    const Table::Rows rows = table.Block(begin, count, block.made);
    block.text.clear();
    for (size_t row = 0; row < count; ++row) {
      append(rows.row(row), rows.fill(row), block.text);
    }
    return OkStatus();
  };
  const auto take = [&file](const Block& block) { return file.Write(block.text); };
  base::ThreadPool alone(1);
  MSP_RETURN_IF_ERROR(base::MakeInOrder<Block>(pool == nullptr ? alone : *pool,
                                               (end - first + kRowsPerBlock - 1) / kRowsPerBlock,
                                               make, take));
  return file.Commit();
}

Status WriteCsvRows(const std::filesystem::path& path, const Table& table, size_t first, size_t end,
                    const Spelling& spelling, std::string head, base::ThreadPool* pool) {
  AppendTexts(table.columns(), spelling, head);
  return WriteRows(path, table, first, end, head, pool,
                   [&](std::span<const Cell> cells, Fill /*fill*/, std::string& text) {
                     AppendCsvRow(cells, spelling, text);
                   });
}

}  // namespace

void AppendCsvRow(std::span<const std::string_view> cells, std::string& out) {
  AppendTexts(cells, kSpreadsheet, out);
}

Status WriteCsv(const std::filesystem::path& path, const Table& table, base::ThreadPool* pool) {
  return WriteCsvRows(path, table, 0, table.row_count(), kSpreadsheet,
                      std::string(base::kByteOrderMark), pool);
}

Result<std::vector<std::filesystem::path>> WriteCsvParts(const std::filesystem::path& stem,
                                                         const Table& table, size_t rows_per_part,
                                                         base::ThreadPool* pool) {
  const size_t rows = table.row_count();
  const size_t parts = rows <= rows_per_part ? 1 : (rows + rows_per_part - 1) / rows_per_part;
  std::vector<std::filesystem::path> written;
  for (size_t part = 0; part < parts; ++part) {
    std::filesystem::path path = stem;
    path += parts == 1 ? std::string(".csv") : fmt::format("_part_{}.csv", part + 1);
    const size_t first = part * rows_per_part;
    MSP_RETURN_IF_ERROR(
        WriteCsvRows(path, table, first, std::min(rows, first + rows_per_part), kPandas, {}, pool));
    written.push_back(std::move(path));
  }
  return written;
}

std::string CsvText(const Table& table) {
  std::string out;
  AppendTexts(table.columns(), kSpreadsheet, out);
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendCsvRow(table.row(row), kSpreadsheet, out);
  }
  return out;
}

Status WriteJsonLines(const std::filesystem::path& path, const Table& table,
                      base::ThreadPool* pool) {
  return WriteRows(path, table, 0, table.row_count(), {}, pool,
                   [&](std::span<const Cell> cells, Fill fill, std::string& text) {
                     AppendJsonLine(table.columns(), cells, fill, text);
                   });
}

std::string JsonLinesText(const Table& table) {
  std::string out;
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendJsonLine(table.columns(), table.row(row), table.fill(row), out);
  }
  return out;
}

}  // namespace msprobe::report
