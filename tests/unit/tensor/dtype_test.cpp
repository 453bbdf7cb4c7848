#include "msprobe/dtype.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace msprobe {
namespace {

TEST(DTypeTable, RowsStandInTheOrderOfTheEnum) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(GetDTypeInfo(dtype).dtype, dtype) << i;
    EXPECT_GT(DTypeSize(dtype), 0U);
  }
}

TEST(DTypeTable, EverySpellingLeadsBackToItsType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    EXPECT_EQ(ParseDType(info.name), info.dtype);
    EXPECT_EQ(ParseDType("torch." + std::string(info.name)), info.dtype);
    if (!info.mindspore.empty()) {
      EXPECT_EQ(ParseDType(info.mindspore), info.dtype);
      EXPECT_EQ(ParseDType("mindspore." + std::string(info.mindspore)), info.dtype);
    }
  }
}

TEST(DTypeTable, NumpySpellingsStateTheSize) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    if (!info.numpy_descr.empty()) {
      EXPECT_EQ(info.numpy_descr.substr(2), std::to_string(info.size_bytes)) << info.name;
      EXPECT_EQ(info.numpy_descr[0], info.size_bytes == 1 ? '|' : '<') << info.name;
    }
  }
}

TEST(DTypeTable, NoNameIsGivenTwice) {
  std::set<std::string_view> seen;
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_TRUE(seen.insert(GetDTypeInfo(static_cast<DType>(i)).name).second);
  }
}

TEST(ParseDType, KnowsTheSecondNamesOfPyTorch) {
  EXPECT_EQ(ParseDType("torch.half"), DType::kFloat16);
  EXPECT_EQ(ParseDType("float"), DType::kFloat32);
  EXPECT_EQ(ParseDType("torch.double"), DType::kFloat64);
  EXPECT_EQ(ParseDType("long"), DType::kInt64);
}

TEST(ParseDType, RefusesEverythingElse) {
  for (const char* text : {"", "torch.", "float33", "FLOAT32", "float32 ", "torch.qint8"}) {
    EXPECT_EQ(ParseDType(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace msprobe
