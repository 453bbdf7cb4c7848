#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/operator_tree.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using ::testing::ElementsAre;

TEST(KernelLinks, CollectKernelsByTheTimeOfTheirLaunch) {
  MadeProfile made;
  made.Launch(20, "late", 1);
  made.Launch(10, "first", 1);
  made.Launch(10, "second", 1);
  const KernelLinks links(*made);
  EXPECT_THAT(links.times(), ElementsAre(10000, 20000));
  EXPECT_THAT(links.kernels(links.Find(10000)), ElementsAre(1, 2));
  EXPECT_THAT(links.kernels(links.Find(20000)), ElementsAre(0));
  EXPECT_EQ(links.Find(15000), KernelLinks::kNone);
  EXPECT_EQ(links.Find(30000), KernelLinks::kNone);
}

TEST(KernelLinks, SkipFlowsThatEndWhereNoKernelStarts) {
  MadeProfile made;
  made.Launch(10, "kernel", 1);
  made->flows[0].end += 1;
  made.Launch(20, "elsewhere", 1);
  made->flows[1].end_thread = made.Text("8");
  EXPECT_TRUE(KernelLinks(*made).times().empty());
}

TEST(KernelLinks, TakeTheLastKernelOfOnesThatStartTogether) {
  MadeProfile made;
  const profile::Kernel kernel = made.Launch(10, "replaced", 1);
  made->kernels.push_back(kernel);
  const KernelLinks links(*made);
  EXPECT_THAT(links.kernels(links.Find(10000)), ElementsAre(1));
}

TEST(KernelLinks, KeepAKernelThatTwoFlowsLeadToTwice) {
  MadeProfile made;
  made.Launch(10, "kernel", 1);
  made->flows.push_back(made->flows[0]);
  const KernelLinks links(*made);
  EXPECT_THAT(links.kernels(0), ElementsAre(0, 0));
}

}  // namespace
}  // namespace msprobe::analysis::perf
