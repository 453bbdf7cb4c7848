#include "src/dump/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

using test_support::TemporaryFolder;

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(ParseRankName, AcceptsANumberOrNoneAfterTheWord) {
  EXPECT_EQ(ParseRankName("rank3").number, 3);
  EXPECT_TRUE(ParseRankName("rank").valid);
  EXPECT_EQ(ParseRankName("rank").number, std::nullopt);
  for (std::string_view odd :
       {"ranking", "rank-1", "rank 1", "Rank1", "step1", "", "rank99999999999999999999"}) {
    EXPECT_FALSE(ParseRankName(odd).valid) << odd;
  }
}

TEST(ParseStepName, NeedsANumber) {
  EXPECT_EQ(ParseStepName("step10").number, 10);
  EXPECT_FALSE(ParseStepName("step").valid);
  EXPECT_FALSE(ParseStepName("steps1").valid);
}

TEST(FindDump, TakesProcessFoldersWhereAStepHasNoRank) {
  const TemporaryFolder folder;
  folder.Write("step0/proc123/dump.json", "{}");
  folder.Write("step1/proc123/dump.json", "{}");
  folder.Write("step1/rank0/dump.json", "{}");
  const auto layout = FindDump(folder.path());
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  ASSERT_EQ(layout->ranks.size(), 2U);
  EXPECT_EQ(layout->ranks[0].process, 123);
  EXPECT_EQ(layout->ranks[0].step, 0);
  EXPECT_EQ(layout->ranks[1].rank, 0);
  EXPECT_EQ(layout->ranks[1].process, std::nullopt);
}

class FindDumpTest : public ::testing::Test {
 protected:
  FindDumpTest() {
    for (const char* rank : {"rank10", "rank2", "rank"}) {
      folder_.Write(fs::path("dump/step10") / rank / "dump.json", "{}");
    }
    folder_.Write("dump/step9/rank0/debug.json", "{}");
    folder_.Write("dump/step9/rank1/notes.txt", "");
    folder_.Write("dump/logs/rank0/dump.json", "{}");
  }
  const TemporaryFolder folder_;
};

TEST_F(FindDumpTest, ListsAWholeDumpByNumberWithUnnumberedRanksFirst) {
  const auto layout = FindDump(folder_.path() / "dump");
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  ASSERT_EQ(layout->ranks.size(), 4U);
  EXPECT_EQ(layout->ranks[0].step, 9);
  EXPECT_TRUE(layout->ranks[0].has_debug);
  EXPECT_FALSE(layout->ranks[0].has_dump);
  EXPECT_EQ(layout->ranks[1].step, 10);
  EXPECT_EQ(layout->ranks[1].rank, std::nullopt);
  EXPECT_EQ(layout->ranks[2].rank, 2);
  EXPECT_EQ(layout->ranks[3].rank, 10);
  EXPECT_TRUE(layout->ranks[3].has_dump);
  EXPECT_FALSE(layout->is_single_file);
}

TEST_F(FindDumpTest, AcceptsAStepFolderARankFolderAndAFile) {
  const auto step = FindDump(folder_.path() / "dump/step10/");
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->ranks.size(), 3U);
  EXPECT_EQ(step->ranks[1].step, 10);

  const auto rank = FindDump(folder_.path() / "dump/step10/rank2");
  ASSERT_TRUE(rank.ok());
  ASSERT_EQ(rank->ranks.size(), 1U);
  EXPECT_EQ(rank->ranks[0].rank, 2);
  EXPECT_EQ(rank->ranks[0].step, 10);

  const auto file = FindDump(folder_.path() / "dump/step9/rank0/debug.json");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->is_single_file);
  EXPECT_EQ(file->single_file_name, "debug.json");
  ASSERT_EQ(file->ranks.size(), 1U);
  EXPECT_TRUE(file->ranks[0].has_debug);
  EXPECT_FALSE(file->ranks[0].has_dump);
  EXPECT_EQ(file->ranks[0].rank, 0);
  EXPECT_EQ(file->ranks[0].step, 9);
}

TEST_F(FindDumpTest, AcceptsABareFolderAndAStepFolderWithoutRanks) {
  folder_.Write("npu/dump.json", "{}");
  const auto bare = FindDump(folder_.path() / "npu");
  ASSERT_TRUE(bare.ok());
  ASSERT_EQ(bare->ranks.size(), 1U);
  EXPECT_EQ(bare->ranks[0].step, std::nullopt);
  EXPECT_EQ(bare->ranks[0].rank, std::nullopt);

  folder_.Write("flat/step3/dump.json", "{}");
  const auto flat = FindDump(folder_.path() / "flat");
  ASSERT_TRUE(flat.ok());
  ASSERT_EQ(flat->ranks.size(), 1U);
  EXPECT_EQ(flat->ranks[0].step, 3);
  EXPECT_EQ(flat->ranks[0].rank, std::nullopt);
}

TEST_F(FindDumpTest, FollowsSymbolicLinks) {
  fs::create_directory_symlink(folder_.path() / "dump", folder_.path() / "link");
  const auto layout = FindDump(folder_.path() / "link");
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->ranks.size(), 4U);
}

TEST_F(FindDumpTest, AcceptsADumpFileOfAnotherName) {
  const auto layout = FindDump(folder_.Write("npu_run.json", "{}"));
  ASSERT_TRUE(layout.ok());
  EXPECT_TRUE(layout->ranks[0].has_dump);
  EXPECT_EQ(layout->single_file_name, "npu_run.json");
}

TEST_F(FindDumpTest, SaysWhatItExpectedAndWhatIsThere) {
  folder_.Write("empty/a.txt", "");
  const auto layout = FindDump(folder_.path() / "empty");
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(layout.status().message(), HasSubstr("step<N>/rank<M>/"));
  EXPECT_THAT(layout.status().message(), HasSubstr("it holds a.txt"));
}

TEST_F(FindDumpTest, PointsToTheFolderBelowThatWouldDo) {
  const auto layout = FindDump(folder_.path());
  ASSERT_FALSE(layout.ok());
  EXPECT_THAT(layout.status().hint(), HasSubstr((folder_.path() / "dump").string()));
}

TEST_F(FindDumpTest, RefusesMissingPathsAndOtherFiles) {
  EXPECT_EQ(FindDump(folder_.path() / "nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(FindDump(folder_.Write("a.pt", "")).status().code(), StatusCode::kNotFound);
}

TEST(FilesOfSteps, AreThoseOfTheFolderItsStepsAndTheirRanks) {
  const TemporaryFolder folder;
  for (const char* name : {"t.csv", "step1/t.csv", "step1/rank0/t.csv", "step1/rank0/other",
                           "step1/rank0/step2/t.csv", "elsewhere/t.csv"}) {
    folder.Write(name, "");
  }
  const auto is_table = [](const fs::path& path) { return path.filename() == "t.csv"; };
  const Result<std::vector<fs::path>> files = FilesOfSteps(folder.path(), is_table);
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(*files, ::testing::UnorderedElementsAre(folder / "t.csv", folder / "step1/t.csv",
                                                      folder / "step1/rank0/t.csv"));
  EXPECT_TRUE(FilesOfSteps(folder / "none", is_table)->empty());
  const Result<std::vector<fs::path>> of_file = FilesOfSteps(folder / "t.csv", is_table);
  EXPECT_EQ(of_file.status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace msprobe::dump
