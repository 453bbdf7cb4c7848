#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/analysis/perf/perf.h"
#include "tests/unit/analysis/perf/made_summary.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeFinding;
using test_support::MadeRank;
using test_support::MadeRun;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

nlohmann::json Written(const RunSummary& run, int exit_code = 0) {
  return nlohmann::json::parse(SummaryJson(run, exit_code));
}

RankSummary Full() {
  RankSummary rank = MadeRank(7, 12.5);
  rank.base.wait_ms = 0.1;
  rank.comparison.memory_gb = 1.0 / 3;
  rank.findings = {MadeFinding("aten::mm \"quoted\"", 1.5, 4),
                   MadeFinding("other", 2, 1, kMemoryMetric)};
  rank.findings[0].call_stack = "a.py(3): f\nb.py(4): g";
  rank.findings[0].base_calls = (int64_t{1} << 62U) + 1;
  rank.collectives = {{"all_reduce", 5, 7.25, 10, 11}};
  rank.gates = {{"e2e>5%", true, "e2e grew"}};
  rank.warnings = {"first\u00e9", "second"};
  rank.files = {"out/book.xlsx"};
  rank.seconds = 0.25;
  return rank;
}

TEST(SummaryJson, ComesBackAsItWas) {
  const Result<std::vector<RankSummary>> ranks =
      ParseRanks(SummaryJson(MadeRun({Full(), MadeRank(std::nullopt, 0)}), 0));
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  ASSERT_EQ(ranks->size(), 2U);
  const RankSummary& back = (*ranks)[0];
  const RankSummary full = Full();
  EXPECT_EQ(back.rank, 7);
  EXPECT_EQ((*ranks)[1].rank, std::nullopt);
  EXPECT_EQ(back.base_path, "before");
  EXPECT_EQ(back.comparison_device, "NPU");
  EXPECT_TRUE(back.has_times);
  EXPECT_EQ(back.base.wait_ms, 0.1);
  EXPECT_EQ(back.comparison.end_to_end_ms, 112.5);
  EXPECT_EQ(back.comparison.memory_gb, 1.0 / 3);
  ASSERT_EQ(back.findings.size(), 2U);
  EXPECT_EQ(back.findings[0].where, full.findings[0].where);
  EXPECT_EQ(back.findings[0].call_stack, full.findings[0].call_stack);
  EXPECT_EQ(back.findings[0].base_calls, full.findings[0].base_calls);
  EXPECT_EQ(back.findings[1].metric, kMemoryMetric);
  ASSERT_EQ(back.collectives.size(), 1U);
  EXPECT_EQ(back.collectives[0].comparison_ms, 7.25);
  EXPECT_EQ(back.collectives[0].comparison_calls, 11);
  ASSERT_EQ(back.gates.size(), 1U);
  EXPECT_TRUE(back.gates[0].failed);
  EXPECT_THAT(back.warnings, ElementsAre("first\u00e9", "second"));
  EXPECT_THAT(back.files, ElementsAre("out/book.xlsx"));
  EXPECT_EQ(back.seconds, 0.25);
}

TEST(SummaryJson, TellsHowTheRunEnded) {
  RunSummary run = MadeRun({Full()});
  run.base_only = {1, 2};
  run.missing = {3};
  const nlohmann::json summary = Written(run, 1);
  EXPECT_EQ(summary["command"], "perf_compare");
  EXPECT_EQ(summary["schema_version"], 1);
  EXPECT_EQ(summary["exit_code"], 1);
  EXPECT_EQ(summary["gates_failed"], true);
  EXPECT_EQ(summary["base_only_ranks"], (std::vector<int>{1, 2}));
  EXPECT_TRUE(summary["comparison_only_ranks"].empty());
  EXPECT_EQ(summary["missing_ranks"], std::vector<int>{3});
  EXPECT_EQ(Written(MadeRun({MadeRank(0, 1)}))["gates_failed"], false);
}

TEST(SummaryJson, SumsUpOverTheRanks) {
  const nlohmann::json over =
      Written(MadeRun({MadeRank(0, 2), MadeRank(4, 20)}))["over_ranks"]["end_to_end"];
  EXPECT_EQ(over["comparison"]["slowest_rank"], 4);
  EXPECT_EQ(over["comparison"]["slowest_ms"], 120.0);
  EXPECT_EQ(over["comparison"]["mean_ms"], 111.0);
  EXPECT_NEAR(over["comparison"]["imbalance"].get<double>(), 120.0 / 111 - 1, 1e-12);
  EXPECT_EQ(over["base"]["imbalance"], 0.0);
  EXPECT_EQ(over["grew_most_rank"], 4);
  EXPECT_EQ(over["grew_most_ms"], 20.0);
}

TEST(SummaryJson, IsValidJsonWhateverTheNumbers) {
  RankSummary rank = MadeRank(0, std::numeric_limits<double>::infinity());
  rank.base.free_ms = std::numeric_limits<double>::quiet_NaN();
  const nlohmann::json summary = Written(MadeRun({rank}));
  EXPECT_TRUE(summary["ranks"][0]["base"]["free_ms"].is_null());
  EXPECT_TRUE(summary["ranks"][0]["comparison"]["end_to_end_ms"].is_null());
}

TEST(SummaryJson, OfNoRanksIsStillASummary) {
  const nlohmann::json summary = Written(RunSummary());
  EXPECT_TRUE(summary["ranks"].is_array());
  EXPECT_TRUE(summary["over_ranks"]["computing"]["grew_most_rank"].is_null());
  const auto ranks = ParseRanks(SummaryJson(RunSummary(), 0));
  ASSERT_TRUE(ranks.ok());
  EXPECT_THAT(*ranks, IsEmpty());
}

TEST(SummaryJson, KeepsAPathThatIsNoUtf8OnItsWay) {
  RankSummary rank = Full();
  rank.base_path = "/data/\xFF\xC3";
  const std::string text = SummaryJson(MadeRun({rank}), 0);
  const auto ranks = ParseRanks(text);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  EXPECT_EQ(SummaryJson(MadeRun(*ranks), 0), text);
}

TEST(ParseRanks, LeavesOutWhatItDoesNotKnow) {
  const auto ranks = ParseRanks(R"({"new": {"ranks": []}, "ranks": [
    {"rank": 2, "colour": "red", "base": {"free_ms": 3}, "findings": [{"where": "here"}, {}]}, {}]})");
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  ASSERT_EQ(ranks->size(), 2U);
  EXPECT_EQ((*ranks)[0].rank, 2);
  EXPECT_EQ((*ranks)[0].findings.size(), 2U);
  EXPECT_EQ((*ranks)[0].findings[0].where, "here");
  EXPECT_EQ((*ranks)[1].rank, std::nullopt);
}

TEST(ParseRanks, TakesNothingFromMembersOfAnotherKind) {
  const auto ranks = ParseRanks(
      R"({"ranks": [{"rank": "2", "base": 5, "findings": {"where": 1}, "gates": null,
          "warnings": [1, "w"], "base_path": ["x"]}, "no rank"]})");
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  ASSERT_EQ(ranks->size(), 2U);
  EXPECT_EQ((*ranks)[0].rank, std::nullopt);
  EXPECT_EQ((*ranks)[0].base.free_ms, 0);
  EXPECT_THAT((*ranks)[0].findings, IsEmpty());
  EXPECT_EQ((*ranks)[0].base_path, "");
}

TEST(ParseRanks, RefusesWhatIsNoSummary) {
  for (const char* text : {"", "[]", "7", "{}", R"({"ranks": 1})", R"({"ranks": [)"}) {
    const auto ranks = ParseRanks(text);
    ASSERT_FALSE(ranks.ok()) << text;
    EXPECT_EQ(ranks.status().code(), StatusCode::kBadFormat) << text;
  }
}

}  // namespace
}  // namespace msprobe::analysis::perf
