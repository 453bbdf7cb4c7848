#include "src/analysis/compare/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace msprobe::analysis::compare {
namespace {

StatValue Number(double value) {
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
  const RowResult result = Compare(Number(2.1), Number(1.0));
  EXPECT_DOUBLE_EQ(result.metrics[kMaxDiff].number, 1.1);
  EXPECT_EQ(result.metrics[kMaxRel].kind, MetricKind::kPercent);
  EXPECT_DOUBLE_EQ(result.metrics[kMaxRel].number, 110.00000000000001);
}

TEST(CompareStatistics, HasNoRelativeErrorAgainstZero) {
  EXPECT_EQ(Compare(Number(1), Number(0)).metrics[kMinRel].text, "N/A");
  EXPECT_EQ(Compare(Number(1), Number(-0.0)).metrics[kMinRel].text, "N/A");
}

TEST(CompareStatistics, ShowsNanForNanAndForInfinityMinusInfinity) {
  EXPECT_EQ(Compare(Number(NAN), Number(1)).metrics[kMaxDiff].text, "Nan");
  const RowResult both = Compare(Number(INFINITY), Number(INFINITY));
  EXPECT_EQ(both.metrics[kMaxDiff].text, "Nan");
  EXPECT_EQ(both.metrics[kMaxRel].text, "Nan");
}

TEST(CompareStatistics, LeavesWhatIsNoNumberAlone) {
  StatValue text;
  text.kind = StatKind::kText;
  text.text = "12";
  EXPECT_EQ(Compare(text, text).metrics[kMaxDiff].text, "N/A");
  EXPECT_EQ(Compare(StatValue(), StatValue()).metrics[kNormRel].text, "N/A");
}

TEST(CompareStatistics, WarnsAboveHalfOfTheLargerSignedValue) {
  EXPECT_EQ(Compare(Number(2), Number(1)).verdict, Verdict::kEmpty);      // exactly one half
  EXPECT_EQ(Compare(Number(-1), Number(-5)).verdict, Verdict::kWarning);  // 4 / 1
  EXPECT_EQ(Compare(Number(0.0001), Number(0)).verdict, Verdict::kWarning);
  EXPECT_EQ(Compare(Number(INFINITY), Number(1)).verdict,
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
