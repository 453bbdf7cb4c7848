#include "src/base/unfinished.h"

#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::RunInChild;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;

std::vector<std::string> NamesIn(const Path& folder) {
  Result<std::vector<std::string>> names = ListFolder(folder);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

// Leaves an unfinished file, closed for writing or not, as a killed process does.
void LeaveUnfinished(const Path& folder, bool closed) {
  EXPECT_EQ(RunInChild([&] {
              Result<AtomicFile> file = AtomicFile::Create(folder / "result", Existing::kRefuse);
              if (file.ok() && file->Write("half").ok() && (!closed || file->Close().ok())) {
                ::kill(::getpid(), SIGKILL);
              }
              return 1;
            }).signal,
            SIGKILL);
}

TEST(UnfinishedFiles, OfKilledProcessesAreRemovedByTheNextThatWritesThere) {
  const TemporaryFolder folder;
  LeaveUnfinished(folder.path(), false);
  ASSERT_EQ(NamesIn(folder.path()).size(), 1U);
  ASSERT_TRUE(WriteFileAtomically(folder / "result", "whole", Existing::kRefuse).ok());
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("result"));
}

TEST(UnfinishedFiles, OfLivingProcessesStay) {
  const TemporaryFolder folder;
  for (const bool closed : {false, true}) {  // the lock is kept until the rename
    Result<AtomicFile> file = AtomicFile::Create(folder / "mine", Existing::kReplace);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("mine").ok());
    if (closed) {
      ASSERT_TRUE(file->Close().ok());
    }
    EXPECT_EQ(RunInChild([&] {
                RemoveAbandoned(folder.path());
                return 0;
              }).exit_code,
              0);
    EXPECT_TRUE(file->Commit().ok());
    EXPECT_EQ(Slurp(folder / "mine"), "mine");
  }
}

TEST(UnfinishedFiles, AreToldFromOtherFilesByTheirNames) {
  const TemporaryFolder folder;
  const std::vector<std::string> others = {".hidden.tmp",       ".msprobe-notes",
                                           "model.12.partial",  ".trend.db.x.partial",
                                           ".config_check.old", "a.tmp"};
  for (const std::string& name : others) {
    Spill(folder / name, "kept");
  }
  Spill(folder / ".msprobe-7-0.tmp", "");
  Spill(folder / ".msprobe-20261123.reserved", "");
  Spill(folder / ".trend.db.7.partial", "");
  Spill(folder / "msprobe-launch-aaaaaa", "");
  ASSERT_TRUE(CreateFolders(folder / ".config_check.7/bench").ok());
  Spill(folder / ".config_check.7/bench/file", "");
  RemoveAbandoned(folder.path());
  std::vector<std::string> left = others;
  left.emplace_back("msprobe-launch-aaaaaa");  // of another kind of folder
  EXPECT_THAT(NamesIn(folder.path()), ::testing::UnorderedElementsAreArray(left));
}

TEST(UnfinishedFiles, BehindALinkOrOfAnotherUserStay) {
  const TemporaryFolder folder;
  Spill(folder / "target", "kept");
  ASSERT_EQ(::symlink((folder / "target").c_str(), (folder / ".msprobe-7-0.tmp").c_str()), 0);
  Spill(folder / ".msprobe-8-0.tmp", "");
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::chown((folder / ".msprobe-8-0.tmp").c_str(), 65534, 65534), 0);
  }
  RemoveAbandoned(folder.path());
  EXPECT_EQ(Slurp(folder / "target"), "kept");
  EXPECT_EQ(NamesIn(folder.path()).size(), is_root ? 3U : 2U);
}

TEST(UnfinishedFiles, RemovedBeforeTheyWereMarkedAreMadeAnew) {
  const TemporaryFolder folder;
  const Path path = folder / "file";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  ASSERT_GE(descriptor, 0);
  EXPECT_TRUE(MarkUnfinished(descriptor));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_FALSE(MarkUnfinished(descriptor));
  ::close(descriptor);
}

}  // namespace
}  // namespace msprobe::base
