#include "src/analysis/perf/communication.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/perf/overall_times.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Profile;

TEST(CollectiveKind, IsTheSameForBothLibraries) {
  EXPECT_EQ(CollectiveKind("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), "all_reduce");
  EXPECT_EQ(CollectiveKind("hcom_allReduce__429_0_1"), "all_reduce");
  EXPECT_EQ(CollectiveKind("ncclKernel_ReduceScatter_RING"), "reduce_scatter");
  EXPECT_EQ(CollectiveKind("hcom_reduceScatter__1"), "reduce_scatter");
  EXPECT_EQ(CollectiveKind("ncclDevKernel_SendRecv"), "send_recv");
  EXPECT_EQ(CollectiveKind("hcom_alltoallv_2"), "all_to_all");
  EXPECT_EQ(CollectiveKind("hcom_receive__3"), "recv");
  EXPECT_EQ(CollectiveKind("sgemm"), "");
}

Profile Gpu() {
  Profile side;
  side.device = profile::Device::kGpu;
  profile::Kernel kernel;
  kernel.name = side.texts.Intern("ncclKernel_AllReduce_RING");
  kernel.is_communication = true;
  kernel.duration_us = 2000;
  side.kernels = {kernel, kernel};
  return side;
}

Profile Npu() {
  Profile side;
  side.device = profile::Device::kNpu;
  profile::CommunicationOperator operation;
  operation.duration_us = 5000;
  operation.name = side.texts.Intern("hcom_allReduce__429_0_1");
  side.communication.push_back(operation);
  operation.name = side.texts.Intern("hcom_broadcast__429_1_1");
  operation.duration_us = 500;
  side.communication.push_back(operation);
  return side;
}

TEST(CompareCollectives, MeetByKindUnlessNamesAreAskedFor) {
  PairOptions options;
  const std::vector<Collective> kinds =
      CompareCollectives(Gpu(), Npu(), {nullptr, nullptr}, options);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].kind, "all_reduce");
  EXPECT_EQ(kinds[0].base_ms, 4);
  EXPECT_EQ(kinds[0].base_calls, 2);
  EXPECT_EQ(kinds[0].comparison_ms, 5);
  EXPECT_EQ(kinds[1].kind, "broadcast");

  options.match_collectives_by_kind = false;
  const std::vector<Collective> names =
      CompareCollectives(Gpu(), Npu(), {nullptr, nullptr}, options);
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names[0].kind, "allreduce");
  EXPECT_EQ(names[1].kind, "ncclkernel");
}

TEST(CommunicationSheet, KeepsTheNamesOfTheProfilers) {
  const report::FormattedTable sheet = CommunicationSheet(Gpu(), Npu(), PairOptions());
  ASSERT_EQ(sheet.table.row_count(), 3U);
  EXPECT_EQ(sheet.table.row(0)[1].text(), "ncclkernel");
  EXPECT_EQ(sheet.table.row(1)[8].text(), "allreduce");
  EXPECT_EQ(CommunicationSheet(Profile(), Profile(), PairOptions()).table.row_count(), 0U);
}

TEST(CompareCollectives, CountAnyNumberOfNames) {
  Profile side;
  side.device = profile::Device::kGpu;
  profile::Kernel kernel;
  kernel.is_communication = true;
  constexpr size_t kNames = 100'000;
  for (size_t i = 0; i < kNames; ++i) {
    kernel.name = side.texts.Intern("nccl" + std::to_string(i) + "_");
    side.kernels.push_back(kernel);
  }
  EXPECT_EQ(CompareCollectives(side, side, {nullptr, nullptr}, PairOptions()).size(), kNames);
  EXPECT_EQ(CommunicationSheet(side, side, PairOptions()).table.row_count(), kNames);
}

Intervals Of(const std::vector<std::pair<int64_t, int64_t>>& ends) {
  Intervals intervals;
  for (const auto& [start, end] : ends) {
    intervals.push_back({start, end, 0});
  }
  return intervals;
}

TEST(OverlapTime, CountsWhatEventsFillOfTheOuterIntervals) {
  EXPECT_EQ(OverlapTime(Of({{0, 10}, {20, 30}}), Of({{-5, 3}, {5, 7}, {9, 22}})), 3 + 2 + 1 + 2);
  EXPECT_EQ(OverlapTime(Of({{0, 10}}), Of({{10, 20}})), 0);
  EXPECT_EQ(OverlapTime({}, Of({{0, 1}})), 0);
}

TEST(Clip, CutsEventsAtTheIntervalsTheyLieIn) {
  const Intervals parts = Clip(Of({{0, 25}}), Of({{5, 10}, {20, 30}}));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].end, 10);
  EXPECT_EQ(parts[1].start, 20);
  EXPECT_EQ(parts[1].end, 25);
}

TEST(Cover, TellsComputingFromCommunicationAlone) {
  // The worked example of two kernels on one stream and a collective that outlasts them.
  const Coverage coverage = Cover({{101, 151, true}, {141, 201, true}, {181, 261, false}});
  EXPECT_EQ(coverage.computing, 100);
  EXPECT_EQ(coverage.communication_only, 60);
  EXPECT_EQ(Cover({{5, 5, true}, {9, 3, false}}).computing, 0);
}

}  // namespace
}  // namespace msprobe::analysis::perf
