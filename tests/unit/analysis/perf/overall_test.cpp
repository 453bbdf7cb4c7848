#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/overall_sheet.h"
#include "src/analysis/perf/overall_times.h"
#include "src/profile/profile.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::Profile;

constexpr Nanoseconds kUs = 1000;

void AddKernel(Profile& side, const char* name, int64_t stream, int64_t start_us, int64_t end_us) {
  profile::Kernel kernel;
  kernel.name = side.texts.Intern(name);
  kernel.task_type = side.texts.Intern("kernel");
  kernel.is_communication = std::string_view(name).substr(0, 4) == "nccl";
  kernel.stream = stream;
  kernel.has_stream = true;
  kernel.start = start_us * kUs;
  kernel.end = end_us * kUs;
  kernel.duration_us = static_cast<double>(end_us - start_us);
  side.kernels.push_back(kernel);
}

// Two kernels that overlap, and a collective that outlasts them.
Profile GpuProfile(int64_t computing_stream = 7) {
  Profile side;
  side.device = profile::Device::kGpu;
  AddKernel(side, "sgemm", computing_stream, 100, 150);
  AddKernel(side, "relu", computing_stream, 140, 200);
  AddKernel(side, "ncclKernel_AllReduce", 30, 180, 260);
  return side;
}

OverallTimes Measure(const Profile& side, const PairOptions& options = {}) {
  std::vector<std::string> warnings;
  Result<OverallTimes> times = MeasureOverall(side, options, warnings);
  EXPECT_TRUE(times.ok()) << times.status().message();
  return times.ok() ? *std::move(times) : OverallTimes();
}

TEST(MeasureOverall, CountsTheMicrosecondsThatComputeAndThoseThatOnlyCommunicate) {
  const OverallTimes times = Measure(GpuProfile());
  EXPECT_DOUBLE_EQ(times.computing_s, 100e-6);
  EXPECT_DOUBLE_EQ(times.uncovered_s, 60e-6);
  EXPECT_DOUBLE_EQ(times.end_to_end_s, 160e-6);
  EXPECT_NEAR(times.free_s, 0, 1e-15);
  EXPECT_DOUBLE_EQ(times.other_cube.ms, 0.05);
  EXPECT_EQ(times.vector_no_trans.count, 1);
}

TEST(MeasureOverall, AKernelAtTheEndOf64BitsIsMeasured) {
  Profile side = GpuProfile();
  side.kernels[0].end = INT64_MAX;
  side.kernels[0].start = INT64_MAX - 50 * kUs;
  EXPECT_NEAR(Measure(side).computing_s, 110e-6, 1e-9);
}

TEST(MeasureOverall, TakesStreamZeroForAStream) {
  Profile amd;
  amd.device = profile::Device::kGpu;
  AddKernel(amd, "sgemm", 0, 100, 150);
  EXPECT_DOUBLE_EQ(Measure(amd).computing_s, 50e-6);
  EXPECT_DOUBLE_EQ(Measure(amd).end_to_end_s, 50e-6);
  AddKernel(amd, "relu", 3, 120, 140);
  EXPECT_DOUBLE_EQ(Measure(amd).computing_s, 50e-6);
  EXPECT_DOUBLE_EQ(Measure(amd).end_to_end_s, 50e-6);
  EXPECT_DOUBLE_EQ(Measure(amd).free_s, 0);
}

TEST(MeasureOverall, ShortKernelsCountOnlyWhenAsked) {
  Profile side;
  side.device = profile::Device::kGpu;
  AddKernel(side, "sgemm", 7, 100, 100);
  side.kernels[0].start += 100;
  side.kernels[0].end += 900;
  EXPECT_EQ(Measure(side).computing_s, 0);
  PairOptions exact;
  exact.exact_time = true;
  EXPECT_DOUBLE_EQ(Measure(side, exact).computing_s, 800e-9);
}

TEST(MeasureOverall, FailsWhereNothingRanOnADevice) {
  Profile side;
  side.device = profile::Device::kGpu;
  std::vector<std::string> warnings;
  EXPECT_EQ(MeasureOverall(side, PairOptions(), warnings).status().code(), StatusCode::kBadFormat);
}

TEST(MeasureOverall, GivesAKernelTheKindOfItsOperator) {
  Profile side = GpuProfile();
  profile::Operator operation;
  operation.name = side.texts.Intern("aten::conv2d");
  operation.thread = side.texts.Intern("2");
  operation.start = 10 * kUs;
  operation.end = 20 * kUs;
  side.operators.push_back(operation);
  side.flows.push_back({15 * kUs, 100 * kUs, 0, 0, 0});
  EXPECT_EQ(Measure(side).conv_forward_cube.count, 1);
  side.backward_thread = operation.thread;
  EXPECT_EQ(Measure(side).conv_backward_cube.count, 1);
}

TEST(MeasureOverall, SaysWhenTheOverlapAnalysisIsMissing) {
  Profile side;
  side.device = profile::Device::kNpu;
  std::vector<std::string> warnings;
  const Result<OverallTimes> times = MeasureOverall(side, PairOptions(), warnings);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->end_to_end_s, 0);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("no overlap analysis"), std::string::npos);
}

TEST(OverallSheet, LeavesOutWhatIsNothingOnBothSides) {
  Profile slower = GpuProfile();
  AddKernel(slower, "relu", 7, 300, 340);
  const report::FormattedTable sheet =
      OverallSheet(Measure(GpuProfile()), Measure(slower), PairOptions());
  std::vector<std::string> rows;
  for (size_t row = 0; row < sheet.table.row_count(); ++row) {
    rows.emplace_back(sheet.table.row(row)[0].text());
  }
  ASSERT_GE(rows.size(), 6U);
  EXPECT_EQ(rows.front(), "Computing Time");
  EXPECT_EQ(rows.back(), "E2E Time");
  EXPECT_EQ(sheet.row_indents[0], 0);
  for (const std::string& row : rows) {
    EXPECT_EQ(row.find("Conv"), std::string::npos) << row;
  }
  EXPECT_TRUE(OverallSheet(OverallTimes(), Measure(slower), PairOptions()).table.columns().empty());
}

}  // namespace
}  // namespace msprobe::analysis::perf
