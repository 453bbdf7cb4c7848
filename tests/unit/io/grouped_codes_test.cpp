#include "src/io/coded/grouped_codes.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using ::testing::HasSubstr;

// Two rows of eight int8 codes, a scale for each row.
struct TwoRows {
  std::string codes = std::string("\x00\x01\x02\x03\x04\x05\x06\x07", 8) + std::string(8, '\x7f');
  std::vector<float> scales = {0.5F, 2.0F};

  CodeLayout Layout() const {
    CodeLayout layout;
    layout.shape = {2, 8};
    layout.columns = 8;
    layout.codes = Bytes(codes);
    layout.group_columns = 8;
    layout.scales.bytes = std::as_bytes(std::span(scales));
    layout.scales.row_stride = 1;
    return layout;
  }
};

TEST(MakeGroupedCodes, ScalesAnyRunOfElements) {
  const TwoRows rows;
  const auto coded = MakeGroupedCodes(rows.Layout(), "int8 channel");
  ASSERT_TRUE(coded.ok()) << coded.status().message();
  std::vector<float> values(4);
  std::vector<float> bounds(4);
  (*coded)->Decode(6, 4, DType::kFloat32, values.data(), bounds.data());
  EXPECT_THAT(values, ::testing::ElementsAre(3.0F, 3.5F, 254.0F, 254.0F));
  EXPECT_GE(bounds[0], 0.25F);
  EXPECT_LT(bounds[0], 0.3F);
  // The last code of the range stands for all that was cut off: a whole step, and a quarter.
  EXPECT_GE(bounds[2], 2.0F);
  EXPECT_LE(bounds[2], 2.51F);
}

TEST(MakeGroupedCodes, RefusesArraysThatAreTooShort) {
  const TwoRows rows;
  CodeLayout layout = rows.Layout();
  layout.codes = layout.codes.first(15);
  EXPECT_THAT(MakeGroupedCodes(layout, "").status().message(), HasSubstr("codes"));
  layout = rows.Layout();
  layout.scales.bytes = layout.scales.bytes.first(4);
  EXPECT_THAT(MakeGroupedCodes(layout, "").status().message(), HasSubstr("scales"));
  layout = rows.Layout();
  layout.scales.row_stride = INT64_MAX;
  EXPECT_FALSE(MakeGroupedCodes(layout, "").ok());
  layout = rows.Layout();
  layout.group_columns = 0;
  EXPECT_FALSE(MakeGroupedCodes(layout, "").ok());
}

TEST(MakeGroupedCodes, RefusesGroupIndicesOutOfRange) {
  const TwoRows rows;
  CodeLayout layout = rows.Layout();
  layout.scales.row_stride = 0;
  layout.scales.column_stride = 1;
  layout.column_groups =
      std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 2});
  EXPECT_FALSE(MakeGroupedCodes(layout, "").ok());
  layout.column_groups =
      std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, -1});
  EXPECT_THAT(MakeGroupedCodes(layout, "").status().message(), HasSubstr("group index"));
}

}  // namespace
}  // namespace msprobe::io
