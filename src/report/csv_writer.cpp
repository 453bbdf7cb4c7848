#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20U;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// What spreadsheets take for the start of a formula, also behind blanks that they skip.
bool LooksLikeFormula(std::string_view text) {
  if (text.empty()) {
    return false;
  }
  switch (text.front()) {
    case '=':
    case '@':
    case '\t':
    case '\r':
      return true;
    // A sign in front of a number is a number: "-inf", "-1" and "+0.5" stay as they are.
    case '+':
    case '-':
      return text.size() > 1 && !base::ParseDouble(text).has_value();
    default:
      return false;
  }
}

void AppendText(std::string_view text, std::string& out) {
  const bool guarded = LooksLikeFormula(text);
  const bool quoted = std::any_of(text.begin(), text.end(), [](char c) {
    return c == ',' || c == '"' || c == '\r' || c == '\n';
  });
  if (!quoted) {
    if (guarded) {
      out += '\'';
    }
    out += text;
    return;
  }
  out += '"';
  if (guarded) {
    out += '\'';
  }
  for (size_t quote = text.find('"'); quote != std::string_view::npos; quote = text.find('"')) {
    out += text.substr(0, quote + 1);
    out += '"';
    text.remove_prefix(quote + 1);
  }
  out += text;
  out += '"';
}

void AppendCell(const Cell& cell, std::string& out) {
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
      base::AppendGeneral(cell.number(), 16, out);
      break;
    case CellKind::kBoolean:
      out += cell.boolean_text();
      break;
  }
}

void AppendHeader(const Table& table, std::string& out) {
  for (size_t column = 0; column < table.columns().size(); ++column) {
    if (column > 0) {
      out += ',';
    }
    AppendText(table.columns()[column], out);
  }
  out += "\r\n";
}

void AppendRow(const Table& table, size_t row, std::string& out) {
  const std::span<const Cell> cells = table.row(row);
  for (size_t column = 0; column < cells.size(); ++column) {
    if (column > 0) {
      out += ',';
    }
    AppendCell(cells[column], out);
  }
  out += "\r\n";
}

}  // namespace

Status WriteCsv(const std::filesystem::path& path, const Table& table) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  std::string out(kByteOrderMark);
  AppendHeader(table, out);
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendRow(table, row, out);
    if (out.size() >= kFlushBytes) {
      MSP_RETURN_IF_ERROR(file.Write(out));
      out.clear();
    }
  }
  MSP_RETURN_IF_ERROR(file.Write(out));
  return file.Commit();
}

std::string CsvText(const Table& table) {
  std::string out;
  AppendHeader(table, out);
  for (size_t row = 0; row < table.row_count(); ++row) {
    AppendRow(table, row, out);
  }
  return out;
}

}  // namespace msprobe::report
