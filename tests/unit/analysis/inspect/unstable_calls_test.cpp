#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/inspect/table_access.h"

namespace msprobe::analysis::inspect {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kHeader =
    "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index\r\n";

TEST(UnstableCalls, AreRankedByHowFarTheirResultsAreApartThenByHowOften) {
  const TemporaryFolder folder;
  std::string text(kHeader);
  const std::pair<const char*, const char*> rows[] = {{"A.few.0.forward", "0.5"},
                                                      {"A.often.0.forward", "0.5"},
                                                      {"A.often.1.forward", "0.25"},
                                                      {"A.inf.0.forward", "inf"},
                                                      {"A.flips.0.forward", "symbol_flipping"},
                                                      {"A.nan.0.forward", "nan_or_inf"},
                                                      {"A.cpu.0.forward", ""},
                                                      {"A.less.0.forward", "-0.75"}};
  for (const auto& [name, distance] : rows) {
    text += std::string("0,add_noise,forward,1,") + name + "," + distance +
            ",torch.float32,\"torch.Size([2])\",\r\n";
  }
  const auto result = InspectPath(folder.Write("free_benchmark.csv", text));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const char* order[] = {"A.nan", "A.flips", "A.inf", "A.less", "A.often", "A.few", "A.cpu"};
  ASSERT_EQ(result->table.row_count(), std::size(order));
  for (size_t i = 0; i < std::size(order); ++i)
    EXPECT_EQ(At(result->table, i, "Function"), order[i]);
  EXPECT_EQ(At(result->table, "A.less", "Largest"), "3");  // a quarter and four times are alike
  EXPECT_EQ(At(result->table, "A.often", "Calls"), "2");
  EXPECT_THAT(result->summary.front(), HasSubstr("7 functions are unstable, most of all A.nan"));
}

TEST(UnstableCalls, ReadsTablesOfMindSporeToo) {
  const TemporaryFolder folder;
  const auto result = InspectPath(
      folder.Write("x.csv",
                   "rank,pert_type,stage,step,api_name,max_rel,dtype,shape,output_index\n"
                   ",add_noise,forward,0,Functional.bmm.12,7.0,Float32,\"(2, 2)\",\n"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(At(result->table, 0, "Function"), "Functional.bmm");
  EXPECT_EQ(At(result->table, 0, "Worst_call"), "step 0: Functional.bmm.12");
}

TEST(UnstableCalls, LinesThatAreNoRowsAreMarkedAndTheOthersCount) {
  const TemporaryFolder folder;
  const auto result = InspectPath(
      folder.Write("free_benchmark.csv", std::string(kHeader) +
                                             "0,a,forward,0,Torch.exp.0.forward,0.1,f,s,\r\n"
                                             "0,a,forward,0,Torch.exp.0.forward,often,f,s,\r\n"
                                             "1,2\r\n0,a,forward,0,exp,0.1,f,s,\r\n\"cut"));
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->table.row_count(), 5U);
  EXPECT_EQ(At(result->table, 0, "Function"), "Torch.exp");
  for (size_t row = 1; row < 5; ++row) EXPECT_EQ(result->table.fill(row), report::Fill::kRed);
  EXPECT_EQ(At(result->table, 1, "Note"), "its max_rel is often");
  EXPECT_EQ(At(result->table, 4, "Note"), "its last row is cut off");
}

TEST(UnstableCalls, AHeaderAloneMeansThatNothingIsUnstable) {
  const TemporaryFolder folder;
  const auto result = InspectPath(folder.Write("free_benchmark.csv", std::string(kHeader)));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->summary.front(), HasSubstr("no unstable call"));
}

}  // namespace
}  // namespace msprobe::analysis::inspect
