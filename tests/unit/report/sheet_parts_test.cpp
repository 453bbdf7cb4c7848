#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/report/xlsx_writer.h"

namespace msprobe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(SplitEvenly, GivesEqualParts) {
  EXPECT_THAT(SplitEvenly(0, 5), ElementsAre(Pair(0, 0)));
  EXPECT_THAT(SplitEvenly(5, 5), ElementsAre(Pair(0, 5)));
  EXPECT_THAT(SplitEvenly(11, 5), ElementsAre(Pair(0, 4), Pair(4, 4), Pair(8, 3)));
}

TEST(SplitIntoParts, KeepsEveryRowInOrderUnderNumberedNames) {
  Table table("weights", {"step"});
  for (int64_t step = 0; step < 5; ++step) {
    const Cell cells[] = {Cell::Integer(step)};
    table.AddRow(cells);
  }
  const std::vector<Table> parts = SplitIntoParts(table, 2);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name(), "weights_part_0");
  EXPECT_EQ(parts[2].name(), "weights_part_2");
  int64_t step = 0;
  for (const Table& part : parts) {
    EXPECT_EQ(part.columns(), table.columns());
    for (size_t row = 0; row < part.row_count(); ++row) {
      EXPECT_EQ(part.row(row)[0].integer(), step++);
    }
  }
  EXPECT_EQ(step, 5);
}

TEST(PartSheetName, CutsTheNameWhereASheetAllowsNoMore) {
  EXPECT_EQ(PartSheetName("random", 12), "random_part_12");
  EXPECT_EQ(PartSheetName(std::string(40, 'a'), 0), std::string(24, 'a') + "_part_0");
}

}  // namespace
}  // namespace msprobe::report
