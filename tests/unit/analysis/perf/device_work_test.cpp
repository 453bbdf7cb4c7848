#include "src/analysis/perf/device_work.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "src/analysis/perf/findings.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;

void Kernel(MadeProfile& made, std::string_view name, int64_t start_us, int64_t end_us,
            int64_t correlation, std::string_view category = "kernel") {
  profile::Kernel kernel;
  kernel.name = made.Text(name);
  kernel.process = made.Text("0");
  kernel.thread = made.Text("7");
  kernel.task_type = made.Text(category);
  kernel.start = start_us * 1000;
  kernel.end = end_us * 1000;
  kernel.duration_us = static_cast<double>(end_us - start_us);
  kernel.correlation = correlation;
  made->kernels.push_back(kernel);
}

void Call(MadeProfile& made, std::string_view name, int64_t start_us, int64_t correlation) {
  made->runtime_calls.push_back({made.Text(name), made.Text("100"), made.Text("1"), start_us * 1000,
                                 (start_us + 2) * 1000, correlation});
}

DeviceWork Work(MadeProfile& made, const HostTree& tree,
                const std::optional<std::string>& step = std::nullopt) {
  return DeviceWork(*made, tree, step);
}

TEST(DeviceWork, SharesOutTheTimeWithoutOverlap) {
  MadeProfile made;
  Kernel(made, "gemm", 0, 100, 1);
  Kernel(made, "relu", 50, 120, 2);
  Kernel(made, "ncclDevKernel_AllReduce", 100, 150, 3);
  Kernel(made, "Memcpy HtoD", 140, 180, 4, "gpu_memcpy");
  Kernel(made, "gemm", 200, 210, 5);
  const HostTree tree(*made);
  const DeviceWork work = Work(made, tree);
  EXPECT_DOUBLE_EQ(work.split().end_to_end, 0.210);
  EXPECT_DOUBLE_EQ(work.split().computing, 0.130);
  EXPECT_DOUBLE_EQ(work.split().communication, 0.030);
  EXPECT_DOUBLE_EQ(work.split().copies, 0.030);
  EXPECT_DOUBLE_EQ(work.split().idle, 0.020);
  EXPECT_DOUBLE_EQ(work.total_ms(), 0.100 + 0.070 + 0.050 + 0.040 + 0.010);
}

TEST(DeviceWork, KnowsWhoseEachPieceIs) {
  MadeProfile made;
  made.Op("## forward ##", 0, 1000);
  made.Op("aten::mm", 10, 20);
  Call(made, "cudaLaunchKernel", 12, 5);
  Call(made, "hipGraphLaunch", 30, 6);
  Call(made, "cuLaunchKernelEx", 50, 7);
  Call(made, "cudaMemcpyAsync", 60, 8);
  Kernel(made, "before", 5, 6, 2);
  Kernel(made, "of mm", 20, 22, 5);
  Kernel(made, "of the graph", 40, 44, 6);
  Kernel(made, "of the graph, too", 45, 49, 6);
  Kernel(made, "python's", 55, 71, 7);
  Kernel(made, "Memcpy", 80, 112, 8, "gpu_memcpy");
  Kernel(made, "of nobody", 120, 184, 90);
  const HostTree tree(*made);
  const DeviceWork work = Work(made, tree);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kBeforeWindow), 0.001);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kOperator), 0.002);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kGraph), 0.008);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kUnattributed), 0.016);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kCopy), 0.032);
  EXPECT_DOUBLE_EQ(work.owned_ms(Owner::kUnknown), 0.064);
}

TEST(DeviceWork, AGraphInsideOfAnOperatorIsTheOperators) {
  MadeProfile made;
  made.Op("CompiledFxGraph", 10, 90);
  Call(made, "cudaGraphLaunch", 30, 6);
  Kernel(made, "a", 40, 44, 6);
  Kernel(made, "b", 45, 49, 6);
  const HostTree tree(*made);
  EXPECT_DOUBLE_EQ(Work(made, tree).owned_ms(Owner::kOperator), 0.008);
}

TEST(DeviceWork, OfAStepOnlyWhatItLaunched) {
  MadeProfile made;
  made.Op("ProfilerStep#1", 0, 100);
  made.Op("ProfilerStep#2", 100, 200);
  made->steps = {{"1", 0, 100'000}, {"2", 100'000, 200'000}};
  Call(made, "cudaLaunchKernel", 90, 5);
  Call(made, "cudaLaunchKernel", 110, 8);
  Kernel(made, "launched before the profile", 101, 102, 2);
  Kernel(made, "of step 1, late", 120, 140, 5);
  Kernel(made, "after a call of step 1", 140, 144, 6);
  Kernel(made, "of step 2", 150, 160, 8);
  Kernel(made, "of step 2, late", 240, 250, 9);
  const HostTree tree(*made);
  const DeviceWork work = Work(made, tree, "2");
  ASSERT_EQ(work.items().size(), 2U);
  EXPECT_DOUBLE_EQ(work.split().computing, 0.020);
  EXPECT_DOUBLE_EQ(work.split().end_to_end, 0.100);
}

TEST(DeviceWork, FindsLaunchesByFlowsWhereNothingIsNumbered) {
  MadeProfile made;
  made.Op("aten::mm", 10, 20);
  made.Launch(10, "k", 5);
  const HostTree tree(*made);
  EXPECT_DOUBLE_EQ(Work(made, tree).owned_ms(Owner::kOperator), 0.005);
}

TEST(IdleTime, IsExplainedByWhatTheHostDid) {
  MadeProfile made;
  made.Op("aten::item", 20, 60);
  Call(made, "cudaLaunchKernel", 0, 1);
  made->runtime_calls.push_back(
      {made.Text("hipStreamSynchronize"), made.Text("100"), made.Text("1"), 25'000, 55'000, 2});
  Call(made, "cudaLaunchKernel", 90, 3);
  Kernel(made, "a", 10, 30, 1);
  Kernel(made, "b", 100, 110, 3);
  Kernel(made, "c", 112, 120, 1);
  const HostTree tree(*made);
  const auto causes = IdleTimeByCause(Work(made, tree));
  EXPECT_DOUBLE_EQ(causes.at("cudaStreamSynchronize in aten::item").ms, 0.025);
  EXPECT_DOUBLE_EQ(causes.at("aten::item on the host").ms, 0.005);
  EXPECT_DOUBLE_EQ(causes.at("python code outside of operators").ms, 0.030);
  EXPECT_DOUBLE_EQ(causes.at("launch latency").ms, 0.010);
  EXPECT_DOUBLE_EQ(causes.at("the device itself, between work launched in time").ms, 0.002);
  double sum = 0;
  for (const auto& [label, amount] : causes) {
    sum += amount.ms;
  }
  EXPECT_DOUBLE_EQ(sum, Work(made, tree).split().idle);
}

}  // namespace
}  // namespace msprobe::analysis::perf
