#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/report/writers.h"

namespace msprobe::report {
namespace {

Table SampleTable() {
  Table table("t", {"name", "value"});
  const std::vector<Cell> first = {Cell::Text("linear"), Cell::Integer(12)};
  const std::vector<Cell> second = {Cell::Text("\u4f60\u597d"), Cell::Number(0.5)};
  table.AddRow(first, Fill::kRed);
  table.AddRow(second);
  return table;
}

TEST(TerminalTable, AlignsColumnsAndCountsWideCharactersTwice) {
  EXPECT_EQ(TerminalTable(SampleTable(), {80, false}),
            "name    value\n"
            "linear     12\n"
            "\u4f60\u597d      0.5\n");
}

TEST(TerminalTable, ColoursTheHeaderAndFilledRows) {
  EXPECT_EQ(TerminalTable(SampleTable(), {80, true}),
            "\x1b[1mname    value\x1b[0m\n"
            "\x1b[31mlinear     12\x1b[0m\n"
            "\u4f60\u597d      0.5\n");
}

TEST(TerminalTable, ColumnsThatAreEquallyWideShrinkTogether) {
  Table table("t", {"call", "layer"});
  const std::vector<Cell> row = {Cell::Text("abcdefghijklmnopqrstuvwxyz"),
                                 Cell::Text("ABCDEFGHIJKLMNOPQRSTUVWXYZ")};
  table.AddRow(row);
  TerminalOptions options;
  options.width = 32;
  options.wrap = true;
  EXPECT_EQ(TerminalTable(table, options),
            "call             layer\n"
            "abcdefghijklmno  ABCDEFGHIJKLMNO\n"
            "pqrstuvwxyz      PQRSTUVWXYZ\n");
}

TEST(TerminalTable, FillsNoRowUpToOneThatIsVeryLong) {
  Table table("t", {"a", "b"});
  const std::string name(100'000, 'x');
  const std::vector<Cell> row = {Cell::Text(name), Cell::Text("1")};
  const std::vector<Cell> other = {Cell::Text("y"), Cell::Text("1")};
  table.AddRow(row);
  for (int i = 0; i < 100; ++i) {
    table.AddRow(other);
  }
  const std::string text = TerminalTable(table, {SIZE_MAX, false});
  EXPECT_NE(text.find(name + "  1\ny" + std::string(1023, ' ') + "  1\n"), std::string::npos);
  EXPECT_LT(text.size(), 100'000U + 102 * 1030);
}

TEST(TerminalTable, CutsTheWidestColumnWithAnEllipsis) {
  Table table("t", {"a", "b"});
  const std::vector<Cell> row = {Cell::Text("0123456789abcdefghij"), Cell::Text("short")};
  table.AddRow(row);
  EXPECT_EQ(TerminalTable(table, {17, false}), "a           b\n012345678\u2026  short\n");
}

TEST(TerminalTable, NeverCutsAWideCharacterInHalf) {
  Table table("t", {"a"});
  const std::vector<Cell> row = {Cell::Text("\u4f60\u597d\u4f60\u597d\u4f60\u597d")};
  table.AddRow(row);
  EXPECT_EQ(TerminalTable(table, {8, false}), "a\n\u4f60\u597d\u4f60\u2026\n");
  EXPECT_EQ(TerminalTable(table, {7, false}), "a\n\u4f60\u597d\u4f60\u2026\n");
  EXPECT_EQ(TerminalTable(table, {6, false}), "a\n\u4f60\u597d\u2026\n");
}

TEST(TerminalTable, GivesEveryCellALineWhereColumnsHaveNoRoom) {
  Table table("t", {"name", "first", "second", "third"});
  const std::vector<Cell> row = {Cell::Text("a.long.name"), Cell::Number(1.25), Cell(),
                                 Cell::Text("what there is to say about it, at length")};
  table.AddRow(row);
  table.AddRow(row);
  TerminalOptions options{.width = 36};
  options.wrap = true;
  options.narrowest = 12;
  EXPECT_EQ(TerminalTable(table, options),
            "name    a.long.name\n"
            "first   1.25\n"
            "third   what there is to say about\n"
            "        it, at length\n"
            "\n"
            "name    a.long.name\n"
            "first   1.25\n"
            "third   what there is to say about\n"
            "        it, at length\n");
}

TEST(TerminalTable, ShowsNoControlCharacters) {
  Table table("t", {"a"});
  const std::vector<Cell> row = {Cell::Text("x\x1b[31my\nz\xFF")};
  table.AddRow(row);
  EXPECT_EQ(TerminalTable(table, {40, false}), "a\nx?[31my z?\n");
}

TEST(TerminalTable, ManagesTablesWithoutRowsOrColumns) {
  EXPECT_EQ(TerminalTable(Table("t", {"a", "b"}), {10, false}), "a  b\n");
  EXPECT_EQ(TerminalTable(Table("t", {}), {10, false}), "\n");
}

TEST(TerminalTable, RoundsNumbersToTheDigitsAskedFor) {
  Table table("t", {"a"});
  const Cell row[] = {Cell::Number(-0.008784129999999999)};
  table.AddRow(row);
  EXPECT_EQ(TerminalTable(table, {40, false, 6}), "          a\n-0.00878413\n");
}

}  // namespace
}  // namespace msprobe::report
