// What the walk looks at, of calls with many rows and of names with many parts.
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/divergence_walk.h"

namespace msprobe::analysis::compare {
namespace {

// One call with `count` rows, the last of them first where `reversed`.
Side OneCall(const std::string& name, uint32_t count, bool reversed) {
  Side side;
  side.entries.push_back({side.Keep(name), 0, count});
  for (uint32_t i = 0; i < count; ++i) {
    SideRow row;
    row.name = side.Keep(name + ".input." + std::to_string(reversed ? count - 1 - i : i));
    row.shape = "[2]";
    row.is_tensor = true;
    side.rows.push_back(row);
  }
  return side;
}

// A search among the rows of the call for each of them would be 10^10 steps.
TEST(RowViews, FindsTheRowsOfAnAlignedCall) {
  for (const uint32_t count : {3U, 100'000U}) {
    const Side npu = OneCall("Torch.f.0.forward", count, false);
    const Side bench = OneCall("Torch.f.1.forward", count, true);
    PairResult result;
    result.rows.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      result.rows[i].pair = {i, kNoRow, MatchOutcome::kNoBenchRow};
    }
    CallAlignment alignment;
    alignment.differs = true;
    alignment.bench_of = {0};
    const RowViews views(npu, bench, result, alignment);
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(views.View(i).bench, &bench.rows[count - 1 - i]);
    }
  }
}

// All beginnings of the name together have 10^11 letters.
TEST(Containment, LooksAtTheInnermostLevelsOfALongPath) {
  std::string path = "m";
  for (int i = 0; i < 300'000; ++i) {
    path += ".m";
  }
  Side side;
  for (const std::string& name :
       {std::string("Module.") + path + ".x.Act.forward.0", "Module." + path + ".Block.forward.0",
        std::string("Module.m.Model.forward.0")}) {
    side.entries.push_back({side.Keep(name), 0, 0});
  }
  const ExecutionPlan plan = PlanExecution(side);
  Containment containment(side, plan, nullptr);
  containment.MarkDiverging(0);
  containment.RecordError(0, 0.5);
  EXPECT_TRUE(containment.ContainsDiverging(1));
  EXPECT_EQ(containment.InnerError(1), 0.5);
  EXPECT_FALSE(containment.ContainsDiverging(2));
}

}  // namespace
}  // namespace msprobe::analysis::compare
