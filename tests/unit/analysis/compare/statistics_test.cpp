#include "src/analysis/compare/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace msprobe::analysis::compare {
namespace {

StatValue Statistic(double value) {
  StatValue stat;
  stat.kind = StatKind::kNumber;
  stat.number = value;
  return stat;
}

// A row whose four statistics are all `value`.
SideRow Row(const StatValue& value) {
  SideRow row;
  row.dtype = "torch.float32";
  row.shape = "[4]";
  row.is_tensor = true;
  row.stats.fill(value);
  return row;
}

RowResult Compare(const StatValue& npu, const StatValue& bench) {
  RowResult result;
  CompareStatistics(Row(npu), Row(bench), result);
  return result;
}

TEST(CompareStatistics, SubtractsAndDividesByTheBench) {
  const RowResult result = Compare(Statistic(2.1), Statistic(1.0));
  EXPECT_DOUBLE_EQ(result.metrics[kMaxDiff].number(), 1.1);
  EXPECT_EQ(result.metrics[kMaxRel].kind, MetricKind::kPercent);
  EXPECT_DOUBLE_EQ(result.metrics[kMaxRel].number(), 110.00000000000001);
}

TEST(CompareStatistics, HasNoRelativeErrorAgainstZero) {
  EXPECT_EQ(Compare(Statistic(1), Statistic(0)).metrics[kMinRel].text(), "N/A");
  EXPECT_EQ(Compare(Statistic(1), Statistic(-0.0)).metrics[kMinRel].text(), "N/A");
}

TEST(CompareStatistics, ShowsNanForNanAndForInfinityMinusInfinity) {
  EXPECT_EQ(Compare(Statistic(NAN), Statistic(1)).metrics[kMaxDiff].text(), "Nan");
  const RowResult both = Compare(Statistic(INFINITY), Statistic(INFINITY));
  EXPECT_EQ(both.metrics[kMaxDiff].text(), "Nan");
  EXPECT_EQ(both.metrics[kMaxRel].text(), "Nan");
}

TEST(CompareStatistics, LeavesWhatIsNoNumberAlone) {
  StatValue text;
  text.SetText("12");
  EXPECT_EQ(Compare(text, text).metrics[kMaxDiff].text(), "N/A");
  EXPECT_EQ(Compare(StatValue(), StatValue()).metrics[kNormRel].text(), "N/A");
}

TEST(CompareStatistics, WarnsAboveHalfOfTheLargerSignedValue) {
  EXPECT_EQ(Compare(Statistic(2), Statistic(1)).verdict, Verdict::kEmpty);      // exactly one half
  EXPECT_EQ(Compare(Statistic(-1), Statistic(-5)).verdict, Verdict::kWarning);  // 4 / 1
  EXPECT_EQ(Compare(Statistic(0.0001), Statistic(0)).verdict, Verdict::kWarning);
  EXPECT_EQ(Compare(Statistic(INFINITY), Statistic(1)).verdict,
            Verdict::kEmpty);  // inf / inf is no warning
}

TEST(CompareChecksums, ComparesTexts) {
  SideRow npu = Row(StatValue());
  SideRow bench = npu;
  npu.md5 = "0123abcd";
  bench.md5 = "0123abcd";
  RowResult result;
  CompareChecksums(npu, bench, result);
  EXPECT_EQ(result.verdict, Verdict::kPass);
  bench.md5 = "0123abce";
  CompareChecksums(npu, bench, result);
  EXPECT_EQ(result.verdict, Verdict::kDifferent);
}

}  // namespace
}  // namespace msprobe::analysis::compare
