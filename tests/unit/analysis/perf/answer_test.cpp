#include "src/analysis/perf/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "tests/unit/analysis/perf/made_summary.h"

namespace msprobe::analysis::perf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MadeFinding;
using testing::MadeRank;
using testing::MadeRun;
using ::testing::Not;
using ::testing::StartsWith;

AnswerOptions Wide() {
  AnswerOptions options;
  options.width = 400;
  return options;
}

std::string Told(const RankSummary& rank, const AnswerOptions& options = Wide()) {
  return RankedAnswer(MadeRun({rank}), options);
}

TEST(Headline, SharesOutTheChangeOfTheWholeTime) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.comparison.uncovered_communication_ms = 33.5;
  rank.comparison.free_ms = 9;
  EXPECT_EQ(Headline(rank),
            "E2E +8.0 ms (+8.0 %): +8.0 ms computing; +3.5 ms uncovered communication; "
            "-1.0 ms free");
}

TEST(Headline, NamesTheOperatorThatDidMostOfIt) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("slower on the host", 1, 100, kHostTime),
                   MadeFinding("aten::add", 9, 1), MadeFinding("aten::mm under Linear", 1, 6.5)};
  // What went the other way, and what is no device time, explains nothing.
  EXPECT_THAT(Headline(rank),
              HasSubstr("+8.0 ms computing, of which +5.5 ms in 24 x aten::mm under Linear;"));
  rank.findings[2].comparison = 21;
  EXPECT_THAT(Headline(rank), HasSubstr("most of all +20.0 ms in 24 x aten::mm under Linear"));
}

TEST(Headline, TellsWaitingAndMemoryWhereTheyAreKnown) {
  RankSummary rank = MadeRank(std::nullopt, 0);
  EXPECT_THAT(Headline(rank), Not(HasSubstr("waiting")));
  EXPECT_THAT(Headline(rank), Not(HasSubstr("memory")));
  rank.comparison.wait_ms = 2;
  rank.base.memory_gb = 10;
  rank.comparison.memory_gb = 11.25;
  EXPECT_THAT(Headline(rank), HasSubstr("(waiting +2.0 ms)"));
  EXPECT_THAT(Headline(rank), HasSubstr("; memory +1.25 GB"));
}

TEST(Headline, SmallTimesKeepTheirDigits) {
  RankSummary rank = MadeRank(std::nullopt, 0.0123);
  EXPECT_THAT(Headline(rank), StartsWith("E2E +0.0123 ms (+0.0 %)"));
}

TEST(Headline, IsEmptyWithoutTimes) {
  RankSummary rank = MadeRank(std::nullopt, 1);
  rank.base.end_to_end_ms = 0;
  EXPECT_EQ(Headline(rank), "");
  rank = MadeRank(std::nullopt, 1);
  rank.has_times = false;
  EXPECT_EQ(Headline(rank), "");
}

TEST(RankedAnswer, ListsFindingsUpToTheNumberAskedFor) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("first", 1, 4), MadeFinding("second", 4, 2),
                   MadeFinding("third", 10, 11, kMemory)};
  rank.findings[1].comparison_calls = 12;
  const std::string all = Told(rank);
  EXPECT_THAT(all, HasSubstr("+3.0 ms  device time of first (1.000 -> 4.000 ms, 24 calls)"));
  EXPECT_THAT(all, HasSubstr("-2.0 ms  device time of second (4.000 -> 2.000 ms, "
                             "24 -> 12 calls)"));
  EXPECT_THAT(all, HasSubstr("+1.0 MB  memory of third (10.000 -> 11.000 MB, 24 calls)"));
  AnswerOptions two = Wide();
  two.top = 2;
  EXPECT_THAT(Told(rank, two), AllOf(HasSubstr("second"), Not(HasSubstr("third"))));
  two.top = 0;
  EXPECT_THAT(Told(rank, two), Not(HasSubstr("Largest differences")));
}

TEST(RankedAnswer, LeavesOutTimesThatAreNoise) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding("large", 1, 4), MadeFinding("small", 1, 1.049),
                   MadeFinding("bytes", 1, 1.001, kMemory)};
  AnswerOptions options = Wide();
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

TEST(RankedAnswer, OfManyRanksTellsTheSlowestAndWhoGrewMost) {
  const std::string told =
      RankedAnswer(MadeRun({MadeRank(0, 2), MadeRank(1, 20), MadeRank(2, -1)}), Wide());
  EXPECT_THAT(told, HasSubstr("3 ranks compared"));
  EXPECT_THAT(told, HasSubstr("slowest rank 1 with 120.0 ms, mean 107.0 ms, imbalance 12.1 %"));
  EXPECT_THAT(told, HasSubstr("rank 1 most: +20.0 ms"));
  // By growth, whatever their numbers.
  const size_t first = told.find("rank 1: E2E +20.0 ms");
  const size_t second = told.find("rank 0: E2E +2.0 ms");
  const size_t third = told.find("rank 2: E2E -1.0 ms");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_NE(third, std::string::npos);
}

TEST(RankedAnswer, NamesRanksThatCouldNotBeCompared) {
  RankSummary failed;
  failed.rank = 1;
  failed.error = "no such step";
  RunSummary run = MadeRun({MadeRank(0, 2), failed});
  run.base_only = {5, 6};
  run.comparison_only = {7};
  run.missing = {8};
  const std::string told = RankedAnswer(run, Wide());
  EXPECT_THAT(told, HasSubstr("1 rank compared"));
  EXPECT_THAT(told, HasSubstr("rank 1 failed: no such step"));
  EXPECT_THAT(told, HasSubstr("only in the base: ranks 5, 6"));
  EXPECT_THAT(told, HasSubstr("only in the comparison: ranks 7"));
  EXPECT_THAT(told, HasSubstr("not delivered: ranks 8"));
}

TEST(RankedAnswer, FitsTheTerminal) {
  RankSummary rank = MadeRank(std::nullopt, 8);
  rank.findings = {MadeFinding(std::string(30, 'n') + " under " + std::string(25, 'm'), 1, 4)};
  AnswerOptions options;
  options.width = 60;
  for (const std::string_view line : base::Split(Told(rank, options), '\n')) {
    EXPECT_LE(line.size(), 60U) << line;
  }
}

}  // namespace
}  // namespace msprobe::analysis::perf
