#include "src/analysis/perf/rank_share.h"

#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/perf/made_summary.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MadeRank;
using testing::MadeRun;

// Whatever launched the tests themselves must not show.
class ShareFromEnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) {
        before_[name] = value;
        ::unsetenv(name);
      }
    }
  }
  void TearDown() override {
    for (const char* name : kNames) {
      ::unsetenv(name);
    }
    for (const auto& [name, value] : before_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  static ProcessShare With(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    return ShareFromEnvironment();
  }

 private:
  static constexpr std::array<const char*, 13> kNames = {"OMPI_COMM_WORLD_RANK",
                                                         "OMPI_COMM_WORLD_SIZE",
                                                         "OMPI_MCA_ess_base_jobid",
                                                         "PMIX_NAMESPACE",
                                                         "SLURM_PROCID",
                                                         "SLURM_NTASKS",
                                                         "SLURM_STEP_NUM_TASKS",
                                                         "SLURM_JOB_ID",
                                                         "SLURM_STEP_ID",
                                                         "SLURM_NPROCS",
                                                         "PMI_RANK",
                                                         "PMI_SIZE",
                                                         "PMI_JOBID"};
  std::map<std::string, std::string> before_;
};

TEST_F(ShareFromEnvironmentTest, IsOneProcessWithoutALauncher) {
  const ProcessShare share = With({});
  EXPECT_EQ(share.index, 0U);
  EXPECT_EQ(share.count, 1U);
}

TEST_F(ShareFromEnvironmentTest, KnowsOpenMpi) {
  const ProcessShare share = With({{"OMPI_COMM_WORLD_RANK", "2"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"PMIX_NAMESPACE", "123/../1"}});
  EXPECT_EQ(share.index, 2U);
  EXPECT_EQ(share.count, 4U);
  EXPECT_EQ(share.launch, "_123----1");  // nothing that leads out of a folder
}

TEST_F(ShareFromEnvironmentTest, KnowsSrunAndTellsItsLaunchesApart) {
  const ProcessShare share = With({{"SLURM_PROCID", "1"},
                                   {"SLURM_STEP_NUM_TASKS", "8"},
                                   {"SLURM_JOB_ID", "77"},
                                   {"SLURM_STEP_ID", "3"}});
  EXPECT_EQ(share.index, 1U);
  EXPECT_EQ(share.count, 8U);
  EXPECT_EQ(share.launch, "_77_3");
  EXPECT_EQ(With({{"SLURM_STEP_ID", "4"}}).launch, "_77_4");
}

TEST_F(ShareFromEnvironmentTest, AJobScriptIsOneProcessWhateverItsJobsSize) {
  EXPECT_EQ(With({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}}).count, 1U);
}

TEST_F(ShareFromEnvironmentTest, KnowsAnMpiWithPmi) {
  const ProcessShare share = With({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "9"}});
  EXPECT_EQ(share.index, 1U);
  EXPECT_EQ(share.count, 2U);
  EXPECT_EQ(share.launch, "_9");
}

TEST_F(ShareFromEnvironmentTest, VariablesThatCannotBeTrueDoNotCount) {
  EXPECT_EQ(With({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}).count, 1U);
  EXPECT_EQ(With({{"PMI_RANK", "-1"}}).count, 1U);
  EXPECT_EQ(With({{"PMI_RANK", "one"}}).count, 1U);
  EXPECT_EQ(With({{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}).count, 1U);
}

class PartsTest : public ::testing::Test {
 protected:
  static ProcessShare Share(size_t index) { return {index, 2, "_job"}; }
  void Deliver(size_t index, std::vector<RankSummary> ranks) {
    const Status status = DeliverPart(folder_.path(), Share(index), MadeRun(std::move(ranks)));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Result<std::vector<RankSummary>> Collect() {
    return CollectParts(folder_.path(), Share(0), std::chrono::seconds(0), late_);
  }

  msprobe::testing::TemporaryFolder folder_;
  std::vector<size_t> late_;
};

TEST_F(PartsTest, MeetInTheOrderOfTheirRanks) {
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

TEST_F(PartsTest, OfALateProcessIsNamed) {
  Deliver(0, {MadeRank(0, 1)});
  const auto ranks = Collect();
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  EXPECT_EQ(ranks->size(), 1U);
  EXPECT_THAT(late_, ElementsAre(1U));
}

TEST_F(PartsTest, OfAnotherLaunchDoNotCount) {
  Deliver(0, {MadeRank(0, 1)});
  const ProcessShare other{1, 2, "_another"};
  ASSERT_TRUE(DeliverPart(folder_.path(), other, MadeRun({MadeRank(9, 1)})).ok());
  const auto ranks = Collect();
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ranks->size(), 1U);
  EXPECT_THAT(late_, ElementsAre(1U));
}

TEST_F(PartsTest, ThatAreDamagedAreNamed) {
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
