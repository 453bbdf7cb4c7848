#include "src/analysis/compare/highlight.h"

#include <gtest/gtest.h>

#include "src/analysis/compare/statistics.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::SideFromEntries;
using test_support::TensorText;

// Compares rows of equal index in statistics mode and highlights them.
PairResult Highlighted(const Side& npu, const Side& bench) {
  PairResult result;
  result.rows.resize(npu.rows.size());
  for (uint32_t i = 0; i < npu.rows.size(); ++i) {
    result.rows[i].pair = {i, i, MatchOutcome::kMatched};
    CompareStatistics(npu.rows[i], bench.rows[i], result.rows[i]);
  }
  HighlightRows(npu, bench, result);
  return result;
}

PairResult HighlightedCall(double npu_in, double bench_in, double npu_out, double bench_out) {
  const Side npu =
      SideFromEntries(CallText("Torch.f.0.forward", TensorText(npu_in), TensorText(npu_out)));
  const Side bench =
      SideFromEntries(CallText("Torch.f.0.forward", TensorText(bench_in), TensorText(bench_out)));
  return Highlighted(npu, bench);
}

TEST(HighlightRows, LeavesSmallDifferencesUncoloured) {
  const PairResult result = HighlightedCall(1.0, 1.0, 2.01, 2.0);
  EXPECT_EQ(result.rows[0].fill, report::Fill::kNone);
  EXPECT_EQ(result.rows[1].fill, report::Fill::kNone);
}

TEST(HighlightRows, TurnsAnOutputRedWhenItsMaximumIsOffByHalf) {
  EXPECT_EQ(HighlightedCall(1.0, 1.0, 3.2, 2.0).rows[1].fill, report::Fill::kRed);
}

TEST(HighlightRows, TurnsAnOutputYellowWhenTheErrorAppearsInIt) {
  EXPECT_EQ(HighlightedCall(1.0, 1.0, 2.4, 2.0).rows[1].fill, report::Fill::kYellow);
  EXPECT_EQ(HighlightedCall(1.05, 1.0, 2.4, 2.0).rows[1].fill, report::Fill::kNone);
}

TEST(HighlightRows, TurnsAnOutputYellowWhenItsErrorIsTenTimesTheInputs) {
  EXPECT_EQ(HighlightedCall(1001.5, 1000.0, 1e6 + 20, 1e6).rows[1].fill, report::Fill::kYellow);
  EXPECT_EQ(HighlightedCall(1001.5, 1000.0, 1e6 + 10, 1e6).rows[1].fill, report::Fill::kNone);
}

TEST(HighlightRows, TurnsHugeErrorsRedWhereverTheyStand) {
  EXPECT_EQ(HighlightedCall(2e10, 1.0, 1.0, 1.0).rows[0].fill, report::Fill::kRed);
}

TEST(HighlightRows, KeepsOnlyRedReasonsOnARedRow) {
  const PairResult result = HighlightedCall(1.0, 1.0, 40.0, 2.0);
  EXPECT_EQ(result.rows[1].fill, report::Fill::kRed);
  EXPECT_EQ(result.rows[1].message.find("ten times"), std::string_view::npos);
}

TEST(HighlightRows, TreatsTheFirstRowOfACallAsAnInput) {
  const std::string only_outputs =
      R"("Torch.f.0.forward": {"output": [)" + TensorText(1.0) + "," + TensorText(3.2) + "]}";
  const std::string bench_outputs =
      R"("Torch.f.0.forward": {"output": [)" + TensorText(1.0) + "," + TensorText(2.0) + "]}";
  const PairResult result =
      Highlighted(SideFromEntries(only_outputs), SideFromEntries(bench_outputs));
  EXPECT_EQ(result.rows[0].fill, report::Fill::kNone);
  EXPECT_EQ(result.rows[1].fill, report::Fill::kRed);
}

TEST(HighlightRows, NeverColoursChecksums) {
  const Side npu =
      SideFromEntries(CallText("Torch.f.0.forward", TensorText(2e10), TensorText(2e10)));
  PairResult result;
  result.mode = CompareMode::kMd5;
  result.rows.resize(npu.rows.size());
  HighlightRows(npu, npu, result);
  EXPECT_EQ(result.rows[0].fill, report::Fill::kNone);
}

}  // namespace
}  // namespace msprobe::analysis::compare
