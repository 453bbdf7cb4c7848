#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "src/analysis/inspect/inspect.h"
#include "tests/unit/analysis/inspect/table_access.h"

namespace msprobe::analysis::inspect {
namespace {

TEST(NumberCell, SpellsWhatNumbersCannotSayAsText) {
  EXPECT_EQ(report::CellText(NumberCell(std::nan(""))), "nan");
  EXPECT_EQ(report::CellText(NumberCell(-std::numeric_limits<double>::infinity())), "-inf");
  EXPECT_EQ(NumberCell(1.5).kind(), report::CellKind::kNumber);
}

TEST(Counted, AgreesInNumber) {
  EXPECT_EQ(Counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(Counted(1234, "tensor"), "1,234 tensors");
}

TEST(RowFilter, CountsRowsThatMatchButFindNoPlace) {
  Options options;
  options.name_filter = "*.weight";
  options.row_limit = 1;
  Contents result;
  RowFilter filter(options, result);
  EXPECT_TRUE(filter.Matches("fc.weight"));
  EXPECT_FALSE(filter.Matches("fc.bias"));
  EXPECT_TRUE(filter.TakePlace());
  EXPECT_FALSE(filter.TakePlace());
  EXPECT_EQ(result.rows_left_out, 1U);
}

}  // namespace
}  // namespace msprobe::analysis::inspect
