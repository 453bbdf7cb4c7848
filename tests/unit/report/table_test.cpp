#include "src/report/table.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::report {
namespace {

TEST(Table, KeepsRowsFillsAndTexts) {
  Table table("Sheet", {"a", "b"});
  const std::vector<Cell> first = {table.KeepText(std::string("temporary")), Cell::Integer(-3)};
  table.AddRow(first, Fill::kRed);
  const std::vector<Cell> second = {Cell(), Cell::Number(0.5)};
  table.AddRow(second);
  ASSERT_EQ(table.row_count(), 2U);
  EXPECT_EQ(table.row(0)[0].text(), "temporary");
  EXPECT_EQ(table.row(0)[1].integer(), -3);
  EXPECT_EQ(table.fill(0), Fill::kRed);
  EXPECT_EQ(table.row(1)[0].kind(), CellKind::kEmpty);
  EXPECT_EQ(table.row(1)[1].number(), 0.5);
  EXPECT_EQ(table.fill(1), Fill::kNone);
}

TEST(Table, CellsStaySmall) { EXPECT_EQ(sizeof(Cell), 16U); }

TEST(CellText, SpellsEveryKind) {
  EXPECT_EQ(CellText(Cell()), "");
  EXPECT_EQ(CellText(Cell::Text("x")), "x");
  EXPECT_EQ(CellText(Cell::Integer(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(CellText(Cell::Number(3.6860690116882324)), "3.686069011688232");
  EXPECT_EQ(CellText(Cell::Number(1e22)), "1e+22");
  EXPECT_EQ(CellText(Cell::Number(4.0)), "4");
  EXPECT_EQ(CellText(Cell::Boolean(false)), "FALSE");
}

}  // namespace
}  // namespace msprobe::report
