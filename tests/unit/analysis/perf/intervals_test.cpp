#include <cstdint>

#include <gtest/gtest.h>

#include "src/analysis/perf/overall_times.h"

namespace msprobe::analysis::perf {
namespace {

TEST(OverlapTime, CountsOverlappingEventsTwice) {
  const Intervals within = {{0, 100, 0}};
  const Intervals events = {{10, 50, 0}, {20, 60, 0}, {90, 200, 0}};
  EXPECT_EQ(OverlapTime(within, events), 40 + 40 + 10);
}

TEST(OverlapTime, IsNeverNegativeHoweverLongTheEventsAre) {
  constexpr profile::Nanoseconds kLong = int64_t{1} << 62U;
  const Intervals within(3, {0, kLong, 0});
  const Intervals events = {{0, kLong, 0}};
  EXPECT_EQ(OverlapTime(within, events), INT64_MAX);
}

}  // namespace
}  // namespace msprobe::analysis::perf
