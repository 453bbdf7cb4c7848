#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/monitor/common/table_rows.h"
#include "src/analysis/monitor/report/report.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

TEST(SeriesScore, FindsTheValueFarthestFromTheMedian) {
  std::vector<double> scratch;
  const std::vector<double> values = {10, 11, 9, 10, 50, 10, 11, 9};
  const SeriesScore score = ScoreSeries(values, scratch);
  EXPECT_EQ(score.at, 4U);
  EXPECT_NEAR(score.score, 40 / 1.4826, 1e-9);  // median 10, MAD 1
  EXPECT_EQ(score.non_finite, 0U);
}

TEST(SeriesScore, CountsWhatIsNotFiniteApart) {
  std::vector<double> scratch;
  const std::vector<double> values = {1, 1, kNoValue, 1, std::numeric_limits<double>::infinity()};
  const SeriesScore score = ScoreSeries(values, scratch);
  EXPECT_EQ(score.score, 0);
  EXPECT_EQ(score.non_finite, 2U);
  EXPECT_EQ(score.first_non_finite, 2U);
}

TEST(SeriesScore, DoesNotCallTheLastDigitOfAConstantNews) {
  std::vector<double> scratch;
  const std::vector<double> values = {1, 1, 1, 1, 1.000001, 1};
  EXPECT_LT(ScoreSeries(values, scratch).score, 0.01);
}

// A second moment of 4e-7 to 6e-7 in tables of six decimals: one unit of rounding, so one spread.
TEST(SeriesScore, CountsTheUnitOfRoundingAsTheSmallestSpread) {
  std::vector<double> scratch;
  const std::vector<double> moments = {0, 0, 0, 0, 1e-6, 0, 1e-6};
  EXPECT_NEAR(ScoreSeries(moments, scratch, 1e-6).score, 1, 1e-9);
  EXPECT_NEAR(ScoreAgainst(1e-6, std::vector<double>{0, 0, 0, 0}, scratch, 1e-6), 1, 1e-9);
  const std::vector<double> coarse = {0.1, 0.1, 0.1, 0.2, 0.1};
  EXPECT_NEAR(ScoreSeries(coarse, scratch, 0.1).score, 1, 1e-9);
  // What is far beyond it is still found, also where every value before was zero.
  EXPECT_GT(ScoreAgainst(0.5, std::vector<double>{0, 0, 0, 0}, scratch, 1e-6), 1e5);
  EXPECT_GT(ScoreAgainst(0.5, std::vector<double>{0, 0, 0, 0}, scratch), 1e5);
}

TEST(SeriesScore, LeavesOutWhatWasNotMeasured) {
  std::vector<double> scratch;
  const std::vector<double> values = {1, kNoNumber, 1, kNoValue, 1};
  const SeriesScore score = ScoreSeries(values, scratch);
  EXPECT_EQ(score.non_finite, 1U);
  EXPECT_EQ(score.first_non_finite, 3U);
}

TEST(RoundingSeen, IsTheDecimalsOfTheNumbers) {
  const auto unit = [](const std::vector<double>& values) {
    RoundingSeen seen;
    for (const double value : values) {
      seen.Take(value);
    }
    return seen.unit();
  };
  EXPECT_DOUBLE_EQ(unit({0, 1e-6, 3.25, 12345.678901, -7}), 1e-6);
  EXPECT_DOUBLE_EQ(unit({0, 1, 2}), 1e-6);  // too few to tell
  EXPECT_DOUBLE_EQ(unit({4.12e-10, 0.5}), 1e-12);
  EXPECT_EQ(unit({1.0 / 3, 2.5}), 0);  // nobody rounds to so many
  EXPECT_DOUBLE_EQ(unit({kNoValue, std::numeric_limits<double>::infinity(), 1e300}), 1e-6);
}

TEST(SeriesScore, SaysNothingOfFewValues) {
  std::vector<double> scratch;
  const std::vector<double> values = {1, 100};
  EXPECT_EQ(ScoreSeries(values, scratch).score, 0);
  EXPECT_EQ(ScoreAgainst(100, values, scratch), 0);
}

TEST(SeriesScore, JudgesAValueByThoseBeforeIt) {
  std::vector<double> scratch;
  const std::vector<double> before = {10, 11, 9, 10, kNoValue, 10};
  EXPECT_GT(ScoreAgainst(20, before, scratch), 6);
  EXPECT_LT(ScoreAgainst(10, before, scratch), 1);
  EXPECT_EQ(ScoreAgainst(kNoValue, before, scratch), 0);
}

class AlertSeries : public testing::Test {
 protected:
  void Add(const std::string& table, int32_t stage, const std::string& name, int32_t micro_step) {
    Series series;
    series.table = table;
    series.stage = stage;
    series.name = name;
    series.micro_step = micro_step;
    run_.series.push_back(series);
  }
  int64_t Find(std::string_view tag) const { return AlertSeriesFinder(run_).Find(tag); }

  MonitoredRun run_;
};

TEST_F(AlertSeries, IsFoundByTaskStageNameAndMicroStep) {
  Add("actv", 0, "0.norm1.output", 0);
  Add("actv", 0, "0.norm1.output", 1);
  Add("actv", 1, "0.norm1.output", 1);
  Add("grad_reduced", 0, "weight", -1);
  Add("grad_unreduced", 0, "weight", -1);
  Add("other", 0, "all_reduce.post_0", -1);
  EXPECT_EQ(Find("0:0.norm1.output:1/rank3/actv"), 1);
  EXPECT_EQ(Find("1:0.norm1.output:1/rank3/actv"), 2);
  EXPECT_EQ(Find("0:weight/rank0/post_grad"), 3);
  EXPECT_EQ(Find("0:weight/rank0/acc_grad"), 4);
  EXPECT_EQ(Find("0:weight/rank0/pre_grad"), 4);
}

TEST_F(AlertSeries, MayBeUnknown) {
  Add("actv", 0, "a", 0);
  for (const char* tag : {"", "/", "0:a:0/rank0/", "0:a:7/rank0/actv", "a/rank0/actv",
                          "/rank0/actv", "0:/rank0/actv", "0:a:0/rank0", ":a:0/rank0/actv"}) {
    EXPECT_EQ(Find(tag), -1) << tag;
  }
}

TEST_F(AlertSeries, MayHaveANameWithColons) {
  Add("exp_avg", 0, "a:1", -1);
  EXPECT_EQ(Find("0:a:1/rank0/exp_avg"), 0);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
