#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/report/render_terminal.h"
#include "tests/unit/analysis/inspect/table_access.h"  // At

namespace msprobe::report {
namespace {

using analysis::inspect::At;
using ::testing::ElementsAre;

constexpr std::string_view kLongName =
    "Module.blocks.0.attn.qkv.Linear.forward.0.parameters.weight";

Table SmallTable() {
  Table table("t", {"Name", "Empty", "Max", "File", "Note"});
  const Cell row[] = {
      Cell::Text(kLongName), {}, Cell::Number(1.23456789), Cell::Text("some_file_of_it.pt"), {}};
  table.AddRow(row);
  const Cell bad[] = {Cell::Text("b"), {}, {}, {}, Cell::Text("cannot be read")};
  table.AddRow(bad, report::Fill::kRed);
  return table;
}

TEST(ForScreen, LeavesEmptyColumnsOutAndSetsNotesApart) {
  const ScreenView view = ForScreen(SmallTable(), 0);
  EXPECT_THAT(view.table.columns(), ElementsAre("Name", "Max", "File"));
  EXPECT_EQ(At(view.table, 0, "Name"), kLongName);
  EXPECT_EQ(view.table.fill(1), report::Fill::kRed);
  EXPECT_THAT(view.notes, ElementsAre("b: cannot be read"));
  EXPECT_EQ(view.width, kLongName.size() + 2 + 7 + 2 + 18);
}

TEST(ForScreen, LeavesColumnsOutBeforeItCutsNames) {
  const ScreenView view = ForScreen(SmallTable(), kLongName.size() + 9);
  EXPECT_THAT(view.table.columns(), ElementsAre("Name", "Max"));
  EXPECT_EQ(At(view.table, 0, "Name"), kLongName);
}

TEST(ForScreen, CutsNamesInTheMiddle) {
  const ScreenView view = ForScreen(SmallTable(), 50);
  const std::string name = At(view.table, 0, "Name");
  EXPECT_TRUE(name.starts_with("Module.blo")) << name;
  EXPECT_TRUE(name.ends_with("forward.0.parameters.weight")) << name;
  EXPECT_EQ(view.width, 50U);
}

TEST(ForScreen, MarksTheCutInAsciiOnRequest) {
  const ScreenView view = ForScreen(SmallTable(), 50, /*ascii=*/true);
  const std::string name = At(view.table, 0, "Name");
  EXPECT_NE(name.find("..."), std::string::npos) << name;
  EXPECT_EQ(name.find("\u2026"), std::string::npos) << name;
  EXPECT_TRUE(name.ends_with("parameters.weight")) << name;
  EXPECT_EQ(view.width, 50U);
}

TEST(ForScreen, KeepsNamesReadableOnAVeryNarrowScreen) {
  EXPECT_GE(ForScreen(SmallTable(), 10).width, 30U);
}

TEST(ForScreen, LeavesFileNamesOutThatRepeatTheRows) {
  Table table("t", {"Name", "File"});
  const Cell row[] = {Cell::Text("a.0.debug"), Cell::Text("a.0.debug.pt")};
  table.AddRow(row);
  EXPECT_THAT(ForScreen(table, 0).table.columns(), ElementsAre("Name"));
}

TEST(ForScreen, AcceptsATableWithoutRows) {
  EXPECT_EQ(ForScreen(Table("t", {"Name", "Note"}), 80).table.row_count(), 0U);
}

}  // namespace
}  // namespace msprobe::report
