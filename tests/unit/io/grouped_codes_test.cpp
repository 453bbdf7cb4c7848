#include "src/io/coded/grouped_codes.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
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

// Whatever the packing: runs, which the kernels decode, are the elements one by one, and so are
// runs of codes that were read ahead.
TEST(MakeGroupedCodes, DecodesRunsAsOneByOne) {
  constexpr int64_t kRows = 16;
  constexpr int64_t kColumns = 96;
  std::string codes(kRows * kColumns, '\0');
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<char>(i * 37 % 251);
    codes[i] = (codes[i] & 0x7C) == 0x7C ? '\0' : codes[i];  // no NaN
  }
  std::vector<float> scales;
  for (int i = 0; i < kRows * 3; ++i) {
    scales.push_back(0.25F + static_cast<float>(i) / 8);
  }
  struct Case {
    CodeKind kind;
    unsigned bits;
    CodePacking packing;
  };
  const Case cases[] = {
      {CodeKind::kFloat8E4M3, 8, CodePacking::kBytes},
      {CodeKind::kFloat8E5M2, 8, CodePacking::kBytes},
      {CodeKind::kSigned, 8, CodePacking::kBytes},
      {CodeKind::kUnsigned, 8, CodePacking::kBytes},
      {CodeKind::kUnsigned, 4, CodePacking::kLowNibbleFirst},
      {CodeKind::kFloat4E2M1, 4, CodePacking::kHighNibbleFirst},
      {CodeKind::kUnsigned, 4, CodePacking::kWordsByRow},
      {CodeKind::kUnsigned, 3, CodePacking::kWordsByRow},
      {CodeKind::kUnsigned, 4, CodePacking::kWordsByColumn},
      {CodeKind::kUnsigned, 4, CodePacking::kInterleaved},
  };
  for (const Case& of : cases) {
    CodeLayout layout;
    layout.shape = {kRows, kColumns};
    layout.columns = kColumns;
    layout.kind = of.kind;
    layout.bits = of.bits;
    layout.packing = of.packing;
    layout.codes = Bytes(codes);
    layout.zero = 7;
    layout.group_columns = 32;
    layout.scales.bytes = std::as_bytes(std::span(scales));
    layout.scales.row_stride = 3;
    layout.scales.column_stride = 1;
    const auto coded = MakeGroupedCodes(layout, "");
    ASSERT_TRUE(coded.ok()) << coded.status().message();
    std::vector<float> values(kRows * kColumns);
    std::vector<float> bounds(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      (*coded)->Decode(static_cast<int64_t>(i), 1, DType::kFloat32, &values[i], &bounds[i]);
    }
    CodedTensor::ReadCodes read;
    (*coded)->Read(64, 1000, read);
    for (const auto& [first, count] : {std::pair<int64_t, size_t>{0, values.size()},
                                       {1, 95},
                                       {7, 300},
                                       {64, 1000},
                                       {70, 33},
                                       {95, 2}}) {
      for (const bool is_read : {false, true}) {
        if (is_read && (read.bytes.empty() || first < 64)) {
          continue;
        }
        std::vector<float> run(count);
        std::vector<float> of_run(count);
        (*coded)->DecodeFrom(is_read ? &read : nullptr, first, count, DType::kFloat32, run.data(),
                             of_run.data());
        const auto begin = static_cast<size_t>(first);
        EXPECT_TRUE(std::equal(run.begin(), run.end(), values.begin() + first)) << begin;
        EXPECT_TRUE(std::equal(of_run.begin(), of_run.end(), bounds.begin() + first)) << begin;
      }
    }
  }
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
