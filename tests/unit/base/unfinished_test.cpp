#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/output_files.h"
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
  const std::vector<std::string> others = {".hidden.tmp",          ".msprobe-notes",
                                           "model.12.partial",     ".trend.db.x.partial",
                                           ".msprobe-staging.old", "a.tmp"};
  for (const std::string& name : others) {
    Spill(folder / name, "kept");
  }
  Spill(folder / ".msprobe-7-0.tmp", "");
  Spill(folder / ".msprobe-20261123.reserved", "");
  Spill(folder / ".trend.db.7.partial", "");
  Spill(folder / "msprobe-launch-aaaaaa", "");
  ASSERT_TRUE(CreateFolders(folder / ".msprobe-staging.7/bench").ok());
  Spill(folder / ".msprobe-staging.7/bench/file", "");
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

  int made = 0;
  const int again = MakeUnfinished([&] {
    const int fresh = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (++made == 1) {
      ::unlink(path.c_str());
    }
    return fresh;
  });
  EXPECT_GE(again, 0);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(NamesIn(folder.path()).size(), 1U);
  errno = 0;
  EXPECT_LT(MakeUnfinished([&] { return ::open(path.c_str(), O_CREAT | O_EXCL, 0640); }), 0);
  EXPECT_EQ(errno, EEXIST);
  ::close(again);
}

// Many that make files and look for leftovers in one folder at once: nobody loses its file.
TEST(UnfinishedFiles, AreMadeWhileOthersLookForLeftovers) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 4;
  constexpr int kFiles = 200;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    children.push_back(::fork());
    if (children.back() == 0) {
      int lost = 0;
      for (int file = 0; file < kFiles; ++file) {
        // A process looks once: each of these is another.
        const pid_t looking = ::fork();
        if (looking == 0) {
          RemoveAbandoned(folder.path());
          ::_exit(0);
        }
        const std::string name = "." + std::to_string(file) + "." + std::to_string(::getpid());
        const Path path = folder / (name + ".partial");
        const int descriptor = MakeUnfinished(
            [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640); });
        int ended = 0;
        ::waitpid(looking, &ended, 0);
        lost += descriptor < 0 || ::unlink(path.c_str()) != 0 ? 1 : 0;
        ::close(descriptor);
      }
      ::_exit(lost == 0 ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
  }
  EXPECT_TRUE(NamesIn(folder.path()).empty());
}

}  // namespace
}  // namespace msprobe::base
