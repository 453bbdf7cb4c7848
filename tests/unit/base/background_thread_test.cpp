#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "src/base/threads.h"

namespace msprobe::base {
namespace {

bool TakesInterrupts() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, SIGINT) == 0;
}

TEST(NoSignals, ThreadsThatAreStartedMeanwhileNeverTakeAny) {
  ASSERT_TRUE(TakesInterrupts());
  bool meanwhile = true;
  std::thread thread;
  {
    const NoSignals no_signals;
    EXPECT_FALSE(TakesInterrupts());
    thread = std::thread([&meanwhile] { meanwhile = TakesInterrupts(); });
  }
  thread.join();
  EXPECT_FALSE(meanwhile);
  EXPECT_TRUE(TakesInterrupts()) << "the maker's own mask is as it was";
}

TEST(StartBackgroundThread, TakesNoSignalsAndLeavesThemToItsMaker) {
  bool takes = true;
  Result<std::thread> thread = StartBackgroundThread([&takes] { takes = TakesInterrupts(); });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_FALSE(takes);
  EXPECT_TRUE(TakesInterrupts());
}

}  // namespace
}  // namespace msprobe::base
