#include <chrono>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/perf.h"
#include "tests/unit/analysis/perf/made_summary.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeRank;
using test_support::MadeRun;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RankPartsTest : public ::testing::Test {
 protected:
  static base::ProcessShare Share(size_t index) { return {index, 2, "_job"}; }
  void Deliver(size_t index, std::vector<RankSummary> ranks) {
    const Status status = DeliverRanks(folder_.path(), Share(index), MadeRun(std::move(ranks)));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Result<std::vector<RankSummary>> Collect() {
    return CollectRanks(folder_.path(), Share(0), std::chrono::seconds(0), late_);
  }

  msprobe::test_support::TemporaryFolder folder_;
  std::vector<size_t> late_;
};

TEST_F(RankPartsTest, MeetInTheOrderOfTheirRanks) {
  Deliver(0, {MadeRank(0, 1), MadeRank(2, 3)});
  Deliver(1, {MadeRank(1, 2), MadeRank(3, 4)});
  const auto ranks = Collect();
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  EXPECT_THAT(late_, IsEmpty());
  ASSERT_EQ(ranks->size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*ranks)[i].rank, static_cast<int64_t>(i));
    EXPECT_EQ((*ranks)[i].comparison.end_to_end_ms, 101 + static_cast<double>(i));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));  // nothing is left behind
}

TEST_F(RankPartsTest, OfALateProcessIsNamed) {
  Deliver(0, {MadeRank(0, 1)});
  const auto ranks = Collect();
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  EXPECT_EQ(ranks->size(), 1U);
  EXPECT_THAT(late_, ElementsAre(1U));
}

TEST_F(RankPartsTest, OfAnotherLaunchDoNotCount) {
  Deliver(0, {MadeRank(0, 1)});
  const base::ProcessShare other{1, 2, "_another"};
  ASSERT_TRUE(DeliverRanks(folder_.path(), other, MadeRun({MadeRank(9, 1)})).ok());
  const auto ranks = Collect();
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ranks->size(), 1U);
  EXPECT_THAT(late_, ElementsAre(1U));
}

TEST_F(RankPartsTest, ThatAreDamagedAreNamed) {
  Deliver(0, {MadeRank(0, 1)});
  Deliver(1, {});
  std::filesystem::path damaged;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (entry.path().filename() == "part_1_of_2.json") {
      damaged = entry.path();
    }
  }
  std::filesystem::resize_file(damaged, 10);
  const auto ranks = Collect();
  ASSERT_FALSE(ranks.ok());
  EXPECT_THAT(ranks.status().message(), ::testing::HasSubstr("part_1_of_2.json"));
}

}  // namespace
}  // namespace msprobe::analysis::perf
