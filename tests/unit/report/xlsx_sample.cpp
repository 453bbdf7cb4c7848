// Writes the workbook that tests/python/xlsx_writer_test.py reads back: xlsx_sample FOLDER.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "src/base/threads.h"
#include "src/report/writers.h"

namespace {

using msprobe::report::Cell;
using msprobe::report::Fill;
using msprobe::report::Table;

bool Write(const std::filesystem::path& path, const std::vector<const Table*>& tables,
           const msprobe::report::XlsxOptions& options) {
  msprobe::base::ThreadPool pool(2);
  const msprobe::Status status = msprobe::report::WriteXlsx(path, tables, options, pool);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
  }
  return status.ok();
}

bool WriteCells(const std::filesystem::path& folder) {
  Table table("Cells & <more>", {"text", "number", "mark"});
  const auto add = [&table](const Cell& text, const Cell& number, Fill fill) {
    const std::vector<Cell> row = {text, number, Cell::Text("m")};
    table.AddRow(row, fill);
  };
  add(Cell::Text("plain"), Cell::Integer(42), Fill::kNone);
  add(Cell::Text("<a href=\"x\">&amp;</a>"), Cell::Number(3.6860690116882324), Fill::kRed);
  add(Cell::Text("-inf\t"), Cell::Number(-1e300), Fill::kYellow);
  add(Cell::Text(" \u4f60\u597d \U0001F600\n second line "), Cell::Integer(INT64_MAX), Fill::kNone);
  add(Cell::Text("bell\x07 stray\xFF end"), Cell::Number(0.1), Fill::kNone);
  add(Cell::Text("=SUM(A1:A9)"), Cell(), Fill::kRed);
  add(Cell::Text(""), Cell::Integer(-1), Fill::kNone);
  add(table.KeepText(std::string(40000, 'x')), Cell::Integer(0), Fill::kNone);
  const Table empty("no rows", {"only"});
  return Write(folder / "cells.xlsx", {&table, &empty}, {});
}

bool WriteSplit(const std::filesystem::path& folder) {
  Table table("stats", {"n", "name"});
  for (int64_t i = 0; i < 25; ++i) {
    const std::vector<Cell> row = {Cell::Integer(i), table.KeepText(std::to_string(i))};
    table.AddRow(row);
  }
  msprobe::report::XlsxOptions options;
  options.freeze_header = false;
  options.autofilter = false;
  options.styled_header = true;
  options.rows_per_sheet = 10;
  return Write(folder / "split.xlsx", {&table}, options);
}

// Many blocks, so that joined compressed streams are read by somebody else's code.
bool WriteLong(const std::filesystem::path& folder) {
  Table table("long", {"n", "value", "name"});
  for (int64_t i = 0; i < 70000; ++i) {
    const std::vector<Cell> row = {Cell::Integer(i), Cell::Number(static_cast<double>(i) / 8.0),
                                   table.KeepText("Functional.linear." + std::to_string(i))};
    table.AddRow(row, i % 1000 == 0 ? Fill::kRed : Fill::kNone);
  }
  return Write(folder / "long.xlsx", {&table}, {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: xlsx_sample FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  return WriteCells(folder) && WriteSplit(folder) && WriteLong(folder) ? 0 : 1;
}
