#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/processes.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  static constexpr std::array<const char*, 14> kNames = {"OMPI_COMM_WORLD_RANK",
                                                         "OMPI_COMM_WORLD_SIZE",
                                                         "OMPI_MCA_ess_base_jobid",
                                                         "PMIX_NAMESPACE",
                                                         "SLURM_PROCID",
                                                         "SLURM_NTASKS",
                                                         "SLURM_STEP_NUM_TASKS",
                                                         "SLURM_JOB_ID",
                                                         "SLURM_STEP_ID",
                                                         "SLURM_RESTART_COUNT",
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
  EXPECT_EQ(With({{"SLURM_RESTART_COUNT", "1"}}).launch, "_77_4_1");  // put back into the queue
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

TEST(Parts, AreCollectedOnceAndTheirFolderGoes) {
  const msprobe::test_support::TemporaryFolder output;
  const ProcessShare first{0, 2, "_job"};
  const Path folder = PartsFolder(output.path(), "some_command", first);
  EXPECT_EQ(folder.filename(), ".some_command_parts_job");
  ASSERT_TRUE(DeliverPart(folder, first, "a").ok());
  std::vector<size_t> late;
  auto parts = CollectParts(folder, first, std::chrono::seconds(0), late);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(parts->size(), 1U);
  EXPECT_THAT(late, ElementsAre(1U));
  ASSERT_TRUE(DeliverPart(folder, first, "a").ok());
  ASSERT_TRUE(DeliverPart(folder, {1, 2, "_job"}, "b").ok());
  parts = CollectParts(folder, first, std::chrono::seconds(0), late);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].text + (*parts)[1].text, "ab");
  EXPECT_THAT(late, IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(output.path()));
}

}  // namespace
}  // namespace msprobe::base
