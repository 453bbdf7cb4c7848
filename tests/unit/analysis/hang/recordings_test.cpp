#include "src/analysis/hang/recordings.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::hang {
namespace {

std::string Entry(std::string_view more) {
  return "{\"process_group\": [\"0\", \"default_pg\"], \"profiling_name\": \"nccl:all_reduce\", "
         "\"input_sizes\": [[2, 3]], \"input_dtypes\": [\"Float\"], \"output_sizes\": [[2, 3]]" +
         std::string(more) + "}";
}

class RecordingsTest : public ::testing::Test {
 protected:
  std::vector<Recording> Read(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, text] : files) {
      folder_.Write(name, text);
    }
    Result<std::vector<Recording>> read = ReadRecordings(folder_.path(), 1, true, warnings_);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? std::move(*read) : std::vector<Recording>();
  }

  test_support::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(RecordingsTest, ACallHasItsGroupKindElementsAndNumber) {
  const std::vector<Recording> read =
      Read({{"a.json", "{\"entries\": [" +
                           Entry(", \"collective_seq_id\": 7, \"state\": \"completed\"") + "]}"}});
  ASSERT_EQ(read.size(), 1U);
  ASSERT_EQ(read[0].calls.size(), 1U);
  const Call& call = read[0].calls[0];
  EXPECT_EQ(read[0].texts[call.kind], "all_reduce");
  EXPECT_EQ(read[0].groups[call.group].description, "default_pg");
  EXPECT_EQ(call.sequence, 7);
  EXPECT_EQ(call.inputs, 6U);
  EXPECT_TRUE(call.is_completed);
  EXPECT_FALSE(read[0].has_lost);
}

TEST_F(RecordingsTest, WhatHasAnotherTypeCountsAsAbsent) {
  const std::vector<Recording> read = Read(
      {{"a.json",
        R"({"entries": [{"collective_seq_id": "x", "process_group": 4, "input_sizes": 3, "frames": {}}, 5],
                           "pg_config": [], "pg_status": "none", "rank": -2})"}});
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].calls.front().sequence, 0);
  EXPECT_EQ(read[0].rank, std::nullopt);
}

TEST_F(RecordingsTest, ElementsOfHugeShapesDoNotWrapAround) {
  const std::vector<Recording> read = Read(
      {{"a.json",
        R"({"entries": [{"input_sizes": [[4611686018427387904, 4611686018427387904, 16]]}]})"}});
  ASSERT_EQ(read.size(), 1U);
  EXPECT_GT(read[0].calls[0].inputs, uint64_t{1} << 62U);
}

TEST_F(RecordingsTest, AJsonBesideItsPickleIsNoSecondRankAndOtherFilesAreLeftOut) {
  const std::vector<Recording> read = Read({{"rank_0.json", "{\"entries\": []}"},
                                            {"rank_0", "(dp0\nVentries\np1\n(lp2\ns."},
                                            {"train.log", "step 1\n"},
                                            {"args.json", "{}"}});
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].path.filename(), "rank_0");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordingsTest, ADamagedPickleIsAWarning) {
  Read({{"rank_0.json", "{\"entries\": []}"}, {"rank_1", "\x80\x02}q"}});
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("rank_1"), std::string::npos);
}

TEST_F(RecordingsTest, RanksComeFromTheFileElseFromItsName) {
  bool guessed = true;
  EXPECT_EQ(RanksOf(Read({{"b_rank_12.json", "{\"entries\": []}"},
                          {"a_rank_3.json", "{\"entries\": []}"}}),
                    &guessed),
            (std::vector<int64_t>{3, 12}));
  EXPECT_FALSE(guessed);
}

TEST_F(RecordingsTest, RanksThatNothingTellsAreGuessed) {
  bool guessed = false;
  EXPECT_EQ(RanksOf(Read({{"left.json", "{\"entries\": []}"}, {"right.json", "{\"entries\": []}"}}),
                    &guessed),
            (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(guessed);
}

}  // namespace
}  // namespace msprobe::analysis::hang
