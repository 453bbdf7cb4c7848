#include <gtest/gtest.h>

#include "src/profile/common/host_events.h"

namespace msprobe::profile {
namespace {

TEST(StepMarker, IsKnownInAnyCase) {
  EXPECT_TRUE(IsStepMarker("ProfilerStep#5"));
  EXPECT_TRUE(IsStepMarker("profilerstep#5"));
  EXPECT_TRUE(IsStepMarker("PROFILERSTEP#"));
}

TEST(StepMarker, MayStandInsideALongerName) {
  EXPECT_TRUE(IsStepMarker("a#my profilerstep#"));
  EXPECT_TRUE(IsStepMarker("ProfilerStep#12 (warm-up)"));
}

TEST(StepMarker, NeedsTheWholeWordAndTheNumberSign) {
  EXPECT_FALSE(IsStepMarker(""));
  EXPECT_FALSE(IsStepMarker("#"));
  EXPECT_FALSE(IsStepMarker("ProfilerStep"));
  EXPECT_FALSE(IsStepMarker("Step#5"));
}

}  // namespace
}  // namespace msprobe::profile
