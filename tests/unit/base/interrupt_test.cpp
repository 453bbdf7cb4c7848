#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>

#include "src/base/files.h"
#include "src/base/processes.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::ChildEnd;
using test_support::RunInChild;
using test_support::TemporaryFolder;

class InterruptSignal : public ::testing::TestWithParam<int> {};

TEST_P(InterruptSignal, EndsTheProcessAndRemovesTheHalfWrittenFile) {
  const TemporaryFolder folder;
  const int signal_number = GetParam();
  const ChildEnd end = RunInChild([&] {
    InstallInterruptCleanup();
    Result<AtomicFile> file = AtomicFile::Create(folder / "result.xlsx");
    if (!file.ok() || !file->Write("half a result").ok() || folder.EntryCount() != 1) {
      return 1;
    }
    std::raise(signal_number);
    return 2;
  });
  EXPECT_EQ(end.signal, signal_number) << "the parent must see that a signal ended it";
  EXPECT_EQ(folder.EntryCount(), 0U);
}

TEST(Interrupt, EndsAProcessBySignalWhoseHandlerRunsWithSignalsBlocked) {
  const ChildEnd end = RunInChild([] {
    InstallInterruptCleanup();
    struct sigaction action {};
    ::sigaction(SIGTERM, nullptr, &action);
    sigfillset(&action.sa_mask);
    action.sa_flags = 0;
    ::sigaction(SIGTERM, &action, nullptr);
    std::raise(SIGTERM);
    return 2;
  });
  EXPECT_EQ(end.signal, SIGTERM);
}

INSTANTIATE_TEST_SUITE_P(Interrupt, InterruptSignal, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

// Whose signals do nothing by default.
TEST(Interrupt, EndsTheFirstProcessOfAContainerToo) {
  if (test_support::IsEmulated()) {
    GTEST_SKIP() << "qemu goes on after the signal that ends the process";
  }
  constexpr int kNoNamespaces = 77;
  const ChildEnd end = RunInChild([] {
    if (::unshare(CLONE_NEWPID) != 0) {
      return kNoNamespaces;
    }
    return RunInChild([] {
             InstallInterruptCleanup();
             std::raise(SIGTERM);
             return 0;
           })
        .exit_code;
  });
  if (end.exit_code == kNoNamespaces) {
    GTEST_SKIP() << "no namespaces can be made here: they need root";
  }
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
}

TEST(Interrupt, KeepsFinishedFiles) {
  const TemporaryFolder folder;
  const ChildEnd end = RunInChild([&] {
    InstallInterruptCleanup();
    if (!WriteFileAtomically(folder / "done", "x").ok()) {
      return 1;
    }
    std::raise(SIGTERM);
    return 2;
  });
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(folder / "done"));
}

TEST(Interrupt, RespectsAnIgnoredHangup) {
  const ChildEnd end = RunInChild([] {
    std::signal(SIGHUP, SIG_IGN);
    InstallInterruptCleanup();
    std::raise(SIGHUP);
    return 7;
  });
  EXPECT_EQ(end.exit_code, 7);
}

TEST(RemoveOnInterrupt, HandsOutSlotsAgainAndSaysWhenNoneIsLeft) {
  std::vector<int> slots;
  for (int slot = RemoveOnInterrupt("/nonexistent/a"); slot >= 0;
       slot = RemoveOnInterrupt("/nonexistent/a")) {
    slots.push_back(slot);
    ASSERT_LT(slots.size(), 100000U);
  }
  EXPECT_GE(slots.size(), 16U) << "a writer per thread and result must fit";
  for (const int slot : slots) {
    ForgetOnInterrupt(slot);
  }
  const int again = RemoveOnInterrupt("/nonexistent/a");
  EXPECT_GE(again, 0);
  ForgetOnInterrupt(again);
  EXPECT_EQ(RemoveOnInterrupt(std::string(5000, 'a')), -1);
  ForgetOnInterrupt(-1);
}

}  // namespace
}  // namespace msprobe::base
