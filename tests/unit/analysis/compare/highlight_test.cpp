#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/compare/statistics.h"
#include "src/base/strings.h"
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

// A call of these inputs and this output, with the metrics of real data or of statistics.
struct Numbers {
  double difference;
  double bench_max;
  double one_thousandth;
  double cosine;
};

Side NumberedSide(const std::vector<Numbers>& rows) {
  Side side;
  for (size_t i = 0; i < rows.size(); ++i) {
    SideRow row;
    row.name = "a";
    row.api_name = "a";
    row.state = i + 1 < rows.size() ? dump::RowState::kInput : dump::RowState::kOutput;
    row.stats[kMax].kind = StatKind::kNumber;
    row.stats[kMax].number = rows[i].bench_max;
    side.rows.push_back(row);
  }
  return side;
}

RowResult OutputOf(const std::vector<Numbers>& rows, CompareMode mode, std::string& message) {
  const Side side = NumberedSide(rows);
  PairResult result;
  result.mode = mode;
  result.rows.resize(rows.size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    RowResult& row = result.rows[i];
    row.pair = {i, i, MatchOutcome::kMatched};
    row.metrics[mode == CompareMode::kRealData ? size_t{kMaxAbsErr} : size_t{kMaxDiff}] =
        Metric::Number(rows[i].difference);
    if (mode == CompareMode::kRealData) {
      row.metrics[kOneThousandth] = Metric::Number(rows[i].one_thousandth);
      row.metrics[kCosine] = Metric::Number(rows[i].cosine);
    }
  }
  HighlightRows(side, side, result);
  message = result.rows.back().message;
  return result.rows.back();
}

// An output is coloured as beside each of the inputs alone, the worst of them and all its reasons.
TEST(HighlightRows, LooksAtAnOutputBesideEachInput) {
  const double differences[] = {0, 0.5, -3, 20, 400, NAN, INFINITY};
  const double maxima[] = {0, 1, 40, -2};
  const double ratios[] = {0.2, 0.65, 0.85, 0.92, 0.99, NAN};
  const double cosines[] = {0.5, 0.95, 1};
  std::minstd_rand random(7);
  const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
  for (int round = 0; round < 3000; ++round) {
    std::vector<Numbers> rows(2 + random() % 4);
    for (Numbers& row : rows) {
      row = {one_of(differences), one_of(maxima), one_of(ratios), one_of(cosines)};
    }
    for (const CompareMode mode : {CompareMode::kRealData, CompareMode::kStatistics}) {
      std::string all;
      const RowResult output = OutputOf(rows, mode, all);
      std::set<std::string> red;
      std::set<std::string> yellow;
      for (size_t i = 0; i + 1 < rows.size(); ++i) {
        std::string alone;
        const report::Fill fill = OutputOf({rows[i], rows.back()}, mode, alone).fill;
        for (const std::string_view line : base::Split(alone, '\n')) {
          if (!line.empty()) {
            (fill == report::Fill::kRed ? red : yellow).emplace(line);
          }
        }
      }
      const std::set<std::string>& expected = red.empty() ? yellow : red;
      std::set<std::string> lines;
      for (const std::string_view line : base::Split(all, '\n')) {
        if (!line.empty()) {
          lines.emplace(line);
        }
      }
      ASSERT_EQ(lines, expected);
      ASSERT_EQ(output.fill, !red.empty()      ? report::Fill::kRed
                             : !yellow.empty() ? report::Fill::kYellow
                                               : report::Fill::kNone);
    }
  }
}

// All pairs of them would be 10^10.
TEST(HighlightRows, TakesNoLongerForCallsOfManyInputsAndOutputs) {
  std::vector<Numbers> rows(200'000, Numbers{1, 100, 1, 1});
  Side side = NumberedSide(rows);
  PairResult result;
  result.rows.resize(rows.size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    side.rows[i].state = i < rows.size() / 2 ? dump::RowState::kInput : dump::RowState::kOutput;
    result.rows[i].pair = {i, i, MatchOutcome::kMatched};
    result.rows[i].metrics[kMaxDiff] = Metric::Number(i == rows.size() - 1 ? 20 : 1);
  }
  HighlightRows(side, side, result);
  EXPECT_EQ(result.rows.back().fill, report::Fill::kYellow);
  EXPECT_EQ(result.rows[rows.size() - 2].fill, report::Fill::kNone);
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
