#include "src/analysis/perf/kernel_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using test_support::Rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MadeProfile NpuProfile() { return MadeProfile(profile::Device::kNpu); }

void AddKernel(MadeProfile& made, std::string_view type, std::string_view shapes,
               double duration_us, std::string_view step = "1") {
  profile::KernelDetail kernel;
  kernel.type = made.Text(type);
  kernel.shapes = made.Text(shapes);
  kernel.step = made.Text(step);
  kernel.duration_us = duration_us;
  made->kernel_details.push_back(kernel);
}

void AddStatistic(MadeProfile& made, std::string_view type, double total_us) {
  made->operator_statistics.push_back(
      {made.Text(type), made.Text("AI_CORE"), 2, total_us, total_us / 2, total_us, 0});
}

TEST(KernelCompare, GroupsByTypeThenShapesAndListsThePartnerlessLast) {
  MadeProfile base = NpuProfile();
  AddKernel(base, "MatMul", "a", 1.005);
  AddKernel(base, "Cast", "", 2);
  AddKernel(base, "MatMul", "b", 3);
  AddKernel(base, "MatMul", "a", 4);
  AddKernel(base, "N/A", "a", 99);
  MadeProfile comparison = NpuProfile();
  AddKernel(comparison, "New", "x", 7);
  AddKernel(comparison, "MatMul", "c", 5);
  AddKernel(comparison, "MatMul", "a", 10);
  std::vector<std::string> warnings;
  EXPECT_THAT(
      Rows(KernelCompare(*base, *comparison, {}, warnings).table),
      ElementsAre("1|MatMul|a|5|2.5|4|1|2|10|10|10|10|1|2|4", "2|MatMul|b|3|3|3|3|1|0|0||||0|0",
                  "3|Cast|N/A|2|2|2|2|1|0|0||||0|0", "4|New|x|0|0||||7|7|7|7|1|inf|inf",
                  "5|MatMul|c|0|0||||5|5|5|5|1|inf|inf"));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(KernelCompare, TakesOnlyTheStep) {
  MadeProfile made = NpuProfile();
  AddKernel(made, "MatMul", "a", 1, "1");
  AddKernel(made, "MatMul", "a", 2, "2");
  PairOptions options;
  options.base_step = "1";
  options.comparison_step = "2";
  std::vector<std::string> warnings;
  EXPECT_THAT(Rows(KernelCompare(*made, *made, options, warnings).table),
              ElementsAre("1|MatMul|a|1|1|1|1|1|2|2|2|2|1|2|2"));
  EXPECT_THAT(warnings, IsEmpty());
  options.comparison_step = "3";
  EXPECT_EQ(KernelCompare(*made, *made, options, warnings).table.row_count(), 0U);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("no kernels of step 3")));
}

TEST(KernelCompare, NeedsTwoNpus) {
  MadeProfile npu = NpuProfile();
  AddKernel(npu, "MatMul", "a", 1);
  MadeProfile gpu;
  std::vector<std::string> warnings;
  EXPECT_EQ(KernelCompare(*gpu, *npu, {}, warnings).table.row_count(), 0U);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(KernelTypeCompare, SortsByRatioAndMakesDoWithOneSide) {
  MadeProfile base = NpuProfile();
  AddStatistic(base, "Same", 10);
  AddStatistic(base, "Gone", 4);
  AddStatistic(base, "Doubled", 10);
  MadeProfile comparison = NpuProfile();
  AddStatistic(comparison, "Same", 10);
  AddStatistic(comparison, "Doubled", 20);
  AddStatistic(comparison, "New", 1);
  PairOptions options;
  options.use_kernel_type = true;
  std::vector<std::string> warnings;
  const auto sheet = KernelCompare(*base, *comparison, options, warnings);
  EXPECT_EQ(sheet.table.name(), "KernelTypeCompare");
  EXPECT_THAT(Rows(sheet.table), ElementsAre("1|New|AI_CORE|0|0|0|0|0|1|0.5|1|0|2|inf|inf",
                                             "2|Doubled|AI_CORE|10|5|10|0|2|20|10|20|0|2|2|2",
                                             "3|Same|AI_CORE|10|5|10|0|2|10|5|10|0|2|1|1",
                                             "4|Gone|AI_CORE|4|2|4|0|2|0|0|0|0|0|0|0"));
  MadeProfile empty = NpuProfile();
  EXPECT_EQ(KernelCompare(*base, *empty, options, warnings).table.row_count(), 3U);
}

}  // namespace
}  // namespace msprobe::analysis::perf
