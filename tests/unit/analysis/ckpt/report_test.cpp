#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/ckpt/ckpt.h"
#include "src/report/render.h"

namespace msprobe::analysis::ckpt {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

PairResult Pair(std::string name, Outcome outcome) {
  PairResult pair;
  pair.name = pair.name_a = pair.name_b = std::move(name);
  pair.shape_a = pair.shape_b = {2};
  pair.outcome = outcome;
  pair.metrics.l2 = 0;
  pair.metrics.cosine = 1;
  pair.sums.finite.element_count = 2;
  return pair;
}

std::string Shown(const Comparison& comparison, size_t width) {
  return report::RenderTerminal(MakeDocument(comparison), {.width = width});
}

bool Fails(const Comparison& comparison, const char* level) {
  return report::Gate({level}).Fails(MakeDocument(comparison));
}

TEST(SimilarityJson, SpellsAsPythonDoes) {
  PairResult pair = Pair("a.weight", Outcome::kDifferent);
  pair.metrics.l2 = static_cast<double>(0.02948446199297905F);
  pair.metrics.cosine = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(SimilarityJson({{pair}}, false), R"({
    "a.weight": {
        "l2": 0.02948446199297905,
        "cos": NaN,
        "numel": 2,
        "shape": [
            2
        ]
    }
})");
  EXPECT_THAT(SimilarityJson({{pair}}, true), HasSubstr("\"cos\": null"));
  EXPECT_EQ(SimilarityJson({}, false), "{}");
}

TEST(SimilarityJson, ShowsBothShapesWhereTheyDiffer) {
  PairResult pair = Pair("w", Outcome::kShapes);
  pair.shape_b = {4};
  const std::string text = SimilarityJson({{pair}}, false);
  EXPECT_THAT(text, HasSubstr("\"l2\": null"));
  EXPECT_THAT(text, HasSubstr("\"numel\": [\n            2,\n            4\n        ]"));
  EXPECT_THAT(text, HasSubstr("\"shape\": [\n            [\n                2\n            ],"));
  pair.shape_a = {4, 1};
  EXPECT_THAT(SimilarityJson({{pair}}, false), HasSubstr("\"numel\": 4,"));
}

TEST(SimilarityJson, SaysErrorWhereASideCannotBeRead) {
  EXPECT_THAT(SimilarityJson({{Pair("w", Outcome::kUnreadable)}}, false),
              HasSubstr("\"l2\": \"error\",\n        \"cos\": \"error\""));
}

Comparison Sample() {
  Comparison comparison;
  comparison.pairs = {Pair("l.0.w", Outcome::kIdentical), Pair("l.1.w", Outcome::kDifferent)};
  comparison.pairs[1].metrics.relative_l2 = 0.25;
  comparison.only_in_b = {{"extra", "of the optimizer"}};
  return comparison;
}

TEST(DetailsTable, HasARowForEveryNameOfEitherSide) {
  const report::Table table = DetailsTable(Sample());
  ASSERT_EQ(table.row_count(), 3U);
  EXPECT_EQ(table.row(0)[1].text(), "identical");
  EXPECT_EQ(table.fill(0), report::Fill::kNone);
  EXPECT_EQ(table.fill(1), report::Fill::kYellow);
  EXPECT_EQ(table.row(2)[1].text(), "only in the reference");
  EXPECT_EQ(table.row(2).back().text(), "of the optimizer");
  EXPECT_THAT(table.columns(), Not(testing::Contains("Mean 1")));
}

TEST(DetailsTable, SpellsWhatIsNotANumber) {
  Comparison comparison = Sample();
  comparison.pairs[0].metrics.l2 = std::numeric_limits<double>::infinity();
  comparison.pairs[0].metrics.cosine = std::nullopt;
  const report::Table table = DetailsTable(comparison);
  EXPECT_EQ(table.row(0)[9].text(), "Infinity");
  EXPECT_EQ(table.row(0)[10].kind(), report::CellKind::kEmpty);
}

TEST(UnmatchedJson, NamesSidesAndReasons) {
  EXPECT_EQ(UnmatchedJson(Sample()), R"({
 "only_in_1": [],
 "only_in_2": [
  {
   "name": "extra",
   "reason": "of the optimizer"
  }
 ],
 "left_out_1": [],
 "left_out_2": []
}
)");
}

TEST(Answer, ListsWhatWasLeftOutWithoutCallingItADifference) {
  Comparison comparison = Sample();
  comparison.pairs.resize(1);
  comparison.pairs[0].outcome = Outcome::kIdentical;
  comparison.only_in_b.clear();
  comparison.left_out_b.push_back({"inv_freq", "computed anew"});
  EXPECT_FALSE(Fails(comparison, "different"));
  const std::string text = Shown(comparison, 80);
  EXPECT_THAT(text, HasSubstr("Left out of the reference: 1 parameter\n  inv_freq: computed anew"));
  EXPECT_THAT(text, StartsWith("IDENTICAL"));
}

TEST(Answer, NamesTheWorstParameterFirst) {
  Comparison comparison = Sample();
  comparison.pairs[1].metrics.l2 = 1;
  comparison.pairs[1].metrics.norm_b = 4;
  const std::string text = Shown(comparison, 80);
  EXPECT_THAT(text,
              testing::StartsWith("DIFFERENT: 1 of 2 common parameters, most of all l.1.w\n"));
  EXPECT_THAT(text, HasSubstr("  l.1  0.25        ####"));
  EXPECT_THAT(text, HasSubstr("Only in the reference: 1 parameter\n  extra: of the optimizer\n"));
}

TEST(Answer, SaysWhenAllIsIdenticalOrNothingIsCommon) {
  Comparison comparison;
  EXPECT_THAT(Shown(comparison, 80), testing::StartsWith("NOTHING COMPARED"));
  comparison.pairs = {Pair("w", Outcome::kIdentical)};
  EXPECT_THAT(Shown(comparison, 80),
              testing::StartsWith("IDENTICAL: all 1 parameter are equal bit by bit\n"));
  comparison.only_in_a = {{"v", ""}};
  EXPECT_THAT(Shown(comparison, 80), testing::StartsWith("EQUAL IN PART"));
}

TEST(Answer, TellsOfNanOnBothSides) {
  Comparison comparison;
  comparison.pairs = {Pair("w", Outcome::kIdentical), Pair("v", Outcome::kIdentical)};
  comparison.pairs[1].sums.nan_count_a = comparison.pairs[1].sums.nan_count_b = 2;
  EXPECT_THAT(Shown(comparison, 80),
              testing::StartsWith("IDENTICAL: all 2 parameters are equal bit by bit, but 1 holds "
                                  "NaN\n"));
  EXPECT_FALSE(Fails(comparison, "different"));
  EXPECT_TRUE(Fails(comparison, "nan"));
}

TEST(Answer, DrawsNoBarForWhatIsNotANumber) {
  Comparison comparison;
  comparison.pairs = {Pair("l.0.w", Outcome::kDifferent), Pair("l.1.w", Outcome::kDifferent)};
  comparison.pairs[0].sums.nan_count_a = 1;
  comparison.pairs[0].sums.finite.nonfinite_mismatch_count = 1;
  comparison.pairs[0].metrics.relative_l2 = std::nan("");
  comparison.pairs[1].metrics.l2 = 1;
  comparison.pairs[1].metrics.norm_b = 2;
  const std::string text = Shown(comparison, 100);
  EXPECT_THAT(text, testing::ContainsRegex("l.0  NaN *\n"));
  EXPECT_THAT(text, HasSubstr("l.1  0.5         ####"));
  EXPECT_THAT(text, HasSubstr("l.0.w (NaN: 1 and 0, infinities: 0 and 0)"));
}

TEST(FailOn, AreThereWhereNothingWasCompared) {
  Comparison comparison;
  EXPECT_TRUE(Fails(comparison, "error"));
  comparison.pairs = {Pair("w", Outcome::kIdentical)};
  EXPECT_FALSE(Fails(comparison, "error"));
  comparison.pairs[0].sums.finite.element_count = 0;
  EXPECT_TRUE(Fails(comparison, "error"));
  EXPECT_THAT(Shown(comparison, 80), testing::StartsWith("NOTHING COMPARED"));
  comparison.pairs = {Pair("w", Outcome::kShapes)};
  EXPECT_THAT(Shown(comparison, 80),
              testing::StartsWith("NOTHING COMPARED: none of 1 common parameter could be"));
}

TEST(FailOn, CountSettingsOfTheOptimizer) {
  Comparison comparison;
  comparison.pairs = {Pair("w", Outcome::kIdentical)};
  comparison.settings = {{"optimizer.param_groups.0.mode", "min", "max"}};
  EXPECT_FALSE(Fails(comparison, "missing"));
  EXPECT_TRUE(Fails(comparison, "different"));
  const std::string text = Shown(comparison, 80);
  EXPECT_THAT(text, testing::StartsWith("DIFFERENT: 1 setting of the optimizer"));
  EXPECT_THAT(text, HasSubstr("optimizer.param_groups.0.mode: min / max"));
}

TEST(FailOn, GrowWithTheLevelAsked) {
  Comparison comparison = Sample();
  EXPECT_FALSE(Fails(comparison, "error"));
  EXPECT_TRUE(Fails(comparison, "missing"));
  comparison.only_in_b.clear();
  EXPECT_FALSE(Fails(comparison, "missing"));
  EXPECT_TRUE(Fails(comparison, "different"));
  comparison.pairs[0].outcome = Outcome::kShapes;
  EXPECT_TRUE(Fails(comparison, "error"));
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
