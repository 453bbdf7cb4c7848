#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/overall_times.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

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

// The first comes back as many times as there are groups: each meets the next one of its name.
OverallTimes OfGroups(size_t count, bool with_kinds) {
  OverallTimes times;
  times.end_to_end_s = 1;
  for (size_t i = 0; i < count; ++i) {
    GroupTime group;
    group.name = "Group " + std::to_string(i / 2) + " Communication";
    group.parallel_name = with_kinds ? "kind" + std::to_string(i) : "";
    group.wait_ms = static_cast<double>(i + 1);
    times.groups.push_back(group);
    times.overlaps.push_back({"Group " + std::to_string(i), "other", 1});
  }
  return times;
}

TEST(OverallSheet, PairsAnyNumberOfGroups) {
  constexpr size_t kGroups = 50'000;
  for (const bool with_kinds : {false, true}) {
    const OverallTimes times = OfGroups(kGroups, with_kinds);
    const report::FormattedTable sheet = OverallSheet(times, times, PairOptions());
    size_t waits = 0;
    for (size_t row = 0; row < sheet.table.row_count(); ++row) {
      const auto cells = sheet.table.row(row);
      if (cells[0].text() == "\t\tWait") {
        EXPECT_EQ(cells[1].number(), cells[4].number());
        ++waits;
      }
    }
    EXPECT_EQ(waits, kGroups);
  }
}

TEST(MeasureOverall, TellsNoPairsOfMoreGroupsThanAnyRankIsIn) {
  Profile side;
  side.device = profile::Device::kNpu;
  side.communication.resize(1);
  side.communication[0].start = 10;
  side.communication[0].end = 20;
  side.uncovered.push_back({10, 20, 0.01});
  for (const size_t count : {size_t{512}, size_t{513}}) {
    side.groups.resize(count);
    for (profile::CommunicationGroup& group : side.groups) {
      group.operators = {0};
    }
    std::vector<std::string> warnings;
    const Result<OverallTimes> times = MeasureOverall(side, PairOptions(), warnings);
    ASSERT_TRUE(times.ok());
    EXPECT_EQ(times->overlaps.size(), count == 512 ? 512 * 511 / 2 : 0);
    EXPECT_EQ(warnings.size(), count == 512 ? 0 : 1);
  }
}

TEST(MeasureOverall, TellsAnyNumberOfKernelsThatComputeAndCommunicate) {
  constexpr uint32_t kNames = 40'000;
  Profile side;
  side.device = profile::Device::kNpu;
  side.has_kernel_metrics = true;
  for (uint32_t i = 0; i < 2 * kNames; ++i) {
    std::string name = "matmulreducescatter";
    for (size_t letter = 0; letter < name.size(); ++letter) {
      if (((i % kNames) >> letter & 1U) != 0) {
        name[letter] = static_cast<char>(name[letter] - 'a' + 'A');
      }
    }
    profile::KernelDetail kernel;
    kernel.name = side.texts.Intern(name);
    kernel.mac_us = 1;
    kernel.duration_us = 1000;
    side.kernel_details.push_back(kernel);
  }
  OverallTimes times = Measure(side);
  ASSERT_EQ(times.combined.size(), kNames);
  EXPECT_EQ(times.combined.back().count, 2);
  times.end_to_end_s = 1;
  EXPECT_GT(OverallSheet(times, times, PairOptions()).table.row_count(), kNames);
}

}  // namespace
}  // namespace msprobe::analysis::perf
