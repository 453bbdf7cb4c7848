#include "src/analysis/perf/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "src/report/render.h"
#include "tests/unit/analysis/perf/made_summary.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeFinding;
using test_support::MadeRank;
using test_support::MadeRun;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string RankedAnswer(const RunSummary& run, const AnswerOptions& options = {},
                         size_t width = 400) {
  return report::RenderTerminal(MakeDocument(run, options), {.width = width});
}

std::string Told(const RankSummary& rank, const AnswerOptions& options = {}) {
  return RankedAnswer(MadeRun({rank}), options);
}

bool Fails(const RunSummary& run, const char* level) {
  return report::Gate({level}).Fails(MakeDocument(run, {}));
}

TEST(RankedAnswer, BeginsWithTheVerdict) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  EXPECT_THAT(Told(rank), StartsWith("SLOWER by 8.0 %, mostly computing: aten::mm\n"));
  EXPECT_EQ(Headline(rank), "SLOWER by 8.0 %, mostly computing: aten::mm");
}

TEST(RankedAnswer, SharesOutTheTime) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.comparison.uncovered_communication_ms = 33.5;
  rank.base.wait_ms = 1;
  rank.comparison.wait_ms = 3;
  rank.base.memory_gb = 10;
  rank.comparison.memory_gb = 11.25;
  const std::string told = Told(rank);
  EXPECT_THAT(told, ContainsRegex("E2E +108.000 +100.000 +\\+8.000 +\\(\\+8.0 %\\)"));
  EXPECT_THAT(told, ContainsRegex("  computing +68.000 +60.000 +\\+8.000"));
  EXPECT_THAT(told, ContainsRegex("  uncovered communication +33.500 +30.000 +\\+3.500"));
  EXPECT_THAT(told, ContainsRegex("    of it waiting +3.000 +1.000"));
  EXPECT_THAT(told, ContainsRegex("memory \\(GB\\) +11.250 +10.000"));
  EXPECT_THAT(told, Not(HasSubstr("copies")));
}

TEST(RankedAnswer, AlwaysTellsWhatBelongsToNoOperator) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.has_unowned = true;
  rank.base_unowned.device = 50;
  rank.comparison_unowned = {40, 8, 1, 0.5, 0, 0.5};
  EXPECT_THAT(Told(rank), AllOf(HasSubstr("reference: 0.000 ms (0.0 %) belong to no operator\n"),
                                HasSubstr("test: 10.000 ms (25.0 %) belong to no operator: "
                                          "graphs 8.000, copies 1.000, earlier step 0.500, "
                                          "launch unknown 0.500\n")));
}

TEST(RankedAnswer, ListsKernelsByFamily) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.kernel_families = {{"matmul", "", 10, 14, 20, 20, 1, 1}, {"softmax", "", 1, 1, 2, 2, 0, 0}};
  EXPECT_THAT(Told(rank), HasSubstr("+4.0 ms  matmul (10.000 -> 14.000 ms, 20 kernels; names added "
                                    "1, removed 1)"));
  EXPECT_THAT(Told(rank), Not(HasSubstr("softmax")));
}

TEST(RankedAnswer, ListsFindingsUpToTheNumberAskedFor) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("first", 1, 4), MadeFinding("second", 4, 2),
                   MadeFinding("third", 10, 11, kMemoryMetric)};
  rank.findings[1].comparison_calls = 12;
  rank.findings[0].note = "other kernels: a -> b";
  const std::string all = Told(rank);
  EXPECT_THAT(all, HasSubstr("              other kernels: a -> b\n"));
  EXPECT_THAT(all, HasSubstr("+3.0 ms  device time of first (1.000 -> 4.000 ms, 24 calls)"));
  EXPECT_THAT(all, HasSubstr("-2.0 ms  device time of second (4.000 -> 2.000 ms, "
                             "24 -> 12 calls)"));
  EXPECT_THAT(all, HasSubstr("+1.0 MB  memory of third (10.000 -> 11.000 MB, 24 calls)"));
  AnswerOptions two;
  two.top = 2;
  EXPECT_THAT(Told(rank, two), AllOf(HasSubstr("second"), Not(HasSubstr("third"))));
  two.top = 0;
  EXPECT_THAT(Told(rank, two), Not(HasSubstr("Largest differences")));
}

TEST(RankedAnswer, LeavesOutTimesThatAreNoise) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("large", 1, 4), MadeFinding("small", 1, 1.049),
                   MadeFinding("bytes", 1, 1.001, kMemoryMetric)};
  AnswerOptions options;
  options.min_difference_us = 50;
  EXPECT_THAT(Told(rank, options),
              AllOf(HasSubstr("large"), HasSubstr("bytes"), Not(HasSubstr("small"))));
}

TEST(RankedAnswer, ShowsTheInnermostFramesOfACallStack) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("op", 1, 4)};
  for (int frame = 0; frame < 8; ++frame) {
    rank.findings[0].call_stack += "frame " + std::to_string(frame) + ";\r\n\n";
  }
  const std::string told = Told(rank);
  EXPECT_THAT(told, HasSubstr("in frame 2;\n"));
  EXPECT_THAT(told, HasSubstr("in frame 7;\n"));
  EXPECT_THAT(told, Not(HasSubstr("frame 1;")));
}

TEST(RankedAnswer, ListsCollectivesByKind) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.collectives = {{"all_reduce", 5, 7, 10, 11}};
  EXPECT_THAT(Told(rank), HasSubstr("+2.0 ms  all_reduce (5.000 -> 7.000 ms, 10 -> 11 calls)"));
}

TEST(RankedAnswer, MakesTextsOfTheProfilesPrintable) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("evil\x1b[2J\n| row", 1, 4)};
  rank.collectives = {{"kind\x1b", 1, 2, 1, 1}};
  rank.gates = {{"g", true, "why\x1b"}};
  const std::string told = Told(rank);
  EXPECT_EQ(told.find('\x1b'), std::string::npos);
  EXPECT_THAT(told, Not(HasSubstr("\n|")));
}

TEST(RankedAnswer, SaysWhichGatesFailed) {
  RankSummary rank = MadeRank(3, 8);
  rank.gates = {{"e2e>5%", true, "e2e grew"}, {"free>5%", false, "free did not"}};
  const std::string told = Told(rank);
  EXPECT_THAT(told, HasSubstr("FAILED rank 3: e2e grew\n"));
  EXPECT_THAT(told, HasSubstr("ok rank 3: free did not\n"));
}

TEST(FailOn, HoldsForTheWordsAndConditionsAskedAbout) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.gates = {{"e2e>5%", true, "e2e grew"}, {"free>5%", false, "free did not"}};
  EXPECT_TRUE(Fails(MadeRun({rank}), "slower"));
  EXPECT_TRUE(Fails(MadeRun({rank}), "e2e>5%"));
  EXPECT_FALSE(Fails(MadeRun({rank}), "free>5%"));
  rank.verdict.word = "SAME";
  EXPECT_FALSE(Fails(MadeRun({rank}), "slower"));
}

TEST(FailOn, ATimeThatIsNotKnownIsNotAGoodOne) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.verdict = {};
  EXPECT_THAT(Told(rank), StartsWith("COMPARED: "));
  EXPECT_TRUE(Fails(MadeRun({rank}), "slower"));
}

TEST(RankedAnswer, OfManyRanksTellsTheSlowestAndWhoGrewMost) {
  const std::string told =
      RankedAnswer(MadeRun({MadeRank(0, 2), MadeRank(1, 20), MadeRank(2, -1)}));
  EXPECT_THAT(told, HasSubstr("3 ranks compared"));
  EXPECT_THAT(told, HasSubstr("slowest rank 1 with 120.0 ms, mean 107.0 ms, imbalance 12.1 %"));
  EXPECT_THAT(told, HasSubstr("rank 1 most: +20.0 ms"));
  // By growth, whatever their numbers.
  const size_t first = told.find("rank 1: SLOWER by 20.0 %");
  const size_t second = told.find("rank 0: SLOWER by 2.0 %");
  const size_t third = told.find("rank 2: SLOWER by -1.0 %");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_NE(third, std::string::npos);
}

TEST(RankedAnswer, OfManyRanksNamesTheOneThatTheOthersWaitFor) {
  RankSummary waiting = MadeRank(0, 0);
  waiting.comparison.uncovered_communication_ms += 20;
  waiting.comparison.end_to_end_ms += 20;
  RankSummary late = MadeRank(1, 20);
  const std::string told = RankedAnswer(MadeRun({waiting, late}));
  EXPECT_THAT(told, StartsWith("SLOWER by 20.0 %, slowest ranks compared (E2E 100.0 -> 120.0 ms)"));
  EXPECT_THAT(told, HasSubstr("the others wait for rank 1: its own computing and free time grew by "
                              "+20.0 ms"));
  EXPECT_THAT(RankedAnswer(MadeRun({MadeRank(0, 20), late})), Not(HasSubstr("wait for")));
}

TEST(RankedAnswer, NamesRanksThatCouldNotBeCompared) {
  RankSummary failed;
  failed.rank = 1;
  failed.error = "no such step";
  RunSummary run = MadeRun({MadeRank(0, 2), failed});
  run.base_only = {5, 6};
  run.comparison_only = {7};
  run.missing = {8};
  const std::string told = RankedAnswer(run);
  EXPECT_THAT(told, HasSubstr("1 rank compared"));
  EXPECT_THAT(told, HasSubstr("rank 1 failed: no such step"));
  EXPECT_THAT(told, HasSubstr("only in the reference: ranks 5, 6"));
  EXPECT_THAT(told, HasSubstr("only in the test: ranks 7"));
  EXPECT_THAT(told, HasSubstr("not delivered: ranks 8"));
}

TEST(RankedAnswer, FitsTheTerminal) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding(std::string(30, 'n') + " under " + std::string(25, 'm'), 1, 4)};
  for (const std::string_view line : base::Split(RankedAnswer(MadeRun({rank}), {}, 60), '\n')) {
    EXPECT_LE(line.size(), 60U) << line;
  }
}

}  // namespace
}  // namespace msprobe::analysis::perf
