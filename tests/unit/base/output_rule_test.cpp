#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/base/output_files.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::RunInChild;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

constexpr const char* kTime = "20250101093000";

TEST(CheckOutputFile, AcceptsANewFileAndRefusesOneThatExists) {
  const TemporaryFolder folder;
  EXPECT_TRUE(CheckOutputFile(folder / "new").ok());
  Spill(folder / "old", "x");
  const Status refused = CheckOutputFile(folder / "old");
  EXPECT_EQ(refused.code(), StatusCode::kUsage);
  EXPECT_THAT(refused.message(), HasSubstr("old exists"));
  EXPECT_THAT(refused.hint(), HasSubstr("--force"));
}

TEST(CheckOutputFile, ForceReplacesRegularFilesOfTheSameUserOnly) {
  const TemporaryFolder folder;
  Spill(folder / "old", "x");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder / "old", folder / "link");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto end = RunInChild([&] {
    SetExistingFiles(Existing::kReplace);
    if (!CheckOutputFile(folder / "old").ok() || CheckOutputFile(folder / "fifo").ok() ||
        CheckOutputFile(folder / "link").ok() || CheckOutputFile(folder.path()).ok() ||
        CheckOutputFile("/dev/null").ok() || CheckOutputFile("-").ok()) {
      return 1;
    }
    const bool was_root = ::geteuid() == 0;
    return test_support::BecomeOrdinaryUser() && was_root == CheckOutputFile(folder / "old").ok()
               ? 2
               : 0;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(CheckWritable, LooksAtTheNearestFolderThatExists) {
  const test_support::TemporaryFolder folder;
  folder.Write("file", "");
  EXPECT_TRUE(CheckWritable(folder.path()).ok());
  EXPECT_TRUE(CheckWritable(folder / "new/folder").ok());
  EXPECT_TRUE(CheckWritable("new/folder").ok());
  EXPECT_FALSE(CheckWritable(folder / "file").ok());
  EXPECT_FALSE(CheckWritable(folder / "file/new").ok());
}

TEST(CheckWritable, FindsFoldersWithoutPermissionAndDeletedOnes) {
  const test_support::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0500);
  const test_support::ChildEnd end = test_support::RunInChild([&folder] {
    std::filesystem::create_directory(folder / "gone");
    std::filesystem::current_path(folder / "gone");
    std::filesystem::remove(folder / "gone");
    const bool deleted = !CheckWritable("new").ok();
    return deleted && test_support::BecomeOrdinaryUser() &&
                   !CheckWritable(folder / "closed/new").ok()
               ? 0
               : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(RunStamp, ARunOfTheSameSecondGetsANumber) {
  const TemporaryFolder folder;
  {
    const Result<RunStamp> first = RunStamp::Take(folder.path(), kTime);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->text(), kTime);
    const Result<RunStamp> second = RunStamp::Take(folder.path(), kTime);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->text(), std::string(kTime) + "_1");
  }
  EXPECT_EQ(folder.EntryCount(), 0U) << "what reserved the names must be gone";
}

TEST(RunStamp, WhatAKilledRunReservedIsTakenOver) {
  const TemporaryFolder folder;
  {
    Spill(folder / ".msprobe-20250101093000.reserved", "");
    const Result<RunStamp> stamp = RunStamp::Take(folder.path(), kTime);
    ASSERT_TRUE(stamp.ok());
    EXPECT_EQ(stamp->text(), kTime);
  }
  EXPECT_EQ(folder.EntryCount(), 0U);
}

TEST(RunStamp, TheFilesOfARunThatHasEndedKeepItsStamp) {
  const TemporaryFolder folder;
  Spill(folder / "compare_result_20250101093000.xlsx", "x");
  Spill(folder / "advisor_20250101093000_1.txt", "x");
  Spill(folder / "result_20250101093000_rank3.xlsx", "x");
  const Result<RunStamp> stamp = RunStamp::Take(folder.path(), kTime);
  ASSERT_TRUE(stamp.ok());
  EXPECT_EQ(stamp->text(), std::string(kTime) + "_2");
}

TEST(RunStamp, ManyRunsAtOnceNeverMeet) {
  const TemporaryFolder folder;
  constexpr size_t kRuns = 16;
  std::vector<std::string> texts(kRuns);
  std::vector<std::thread> runs;
  for (size_t i = 0; i < kRuns; ++i) {
    runs.emplace_back([&, i] {
      const Result<RunStamp> stamp = RunStamp::Take(folder.path(), kTime);
      if (stamp.ok()) {
        texts[i] = stamp->text();
        Spill(folder / ("result_" + texts[i] + ".csv"), "x");
      }
    });
  }
  for (std::thread& run : runs) {
    run.join();
  }
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), kRuns);
  EXPECT_EQ(folder.EntryCount(), kRuns);
}

TEST(RunStamp, NeedsAFolder) {
  const TemporaryFolder folder;
  Spill(folder / "file", "x");
  EXPECT_EQ(RunStamp::Take(folder / "file", kTime).status().code(), StatusCode::kUsage);
  EXPECT_EQ(RunStamp::Take("-", kTime).status().code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace msprobe::base
