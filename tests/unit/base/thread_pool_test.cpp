#include <atomic>
#include <new>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "src/base/threads.h"
#include "tests/unit/base/failing_new.h"
#include "tests/unit/support/child_process.h"

namespace msprobe::base {
namespace {

TEST(ThreadPool, CallsEveryItemOnce) {
  for (const size_t threads : {1U, 2U, 3U, 8U}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    std::vector<std::atomic<int>> calls(1000);
    pool.ParallelFor(calls.size(), [&](size_t item, size_t) { ++calls[item]; });
    for (const std::atomic<int>& count : calls) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, WorkerNumbersFitPerThreadScratch) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(pool.thread_count());
  std::atomic<int> collisions{0};
  pool.ParallelFor(5000, [&](size_t, size_t worker) {
    ASSERT_LT(worker, busy.size());
    if (busy[worker].fetch_add(1) != 0) {
      ++collisions;
    }
    --busy[worker];
  });
  EXPECT_EQ(collisions, 0) << "two bodies ran at once under one worker number";
}

// Floating sums depend on their order: merging per item makes them independent of the thread count.
TEST(ThreadPool, MergingInItemOrderGivesTheSameBitsForAnyThreadCount) {
  constexpr size_t kItems = 333;
  const auto sum_with = [](size_t threads) {
    ThreadPool pool(threads);
    std::vector<double> parts(kItems);
    pool.ParallelFor(kItems, [&](size_t item, size_t) {
      double sum = 0;
      for (size_t i = 0; i < 100; ++i) {
        sum += 1.0 / static_cast<double>(1 + item * 100 + i);
      }
      parts[item] = sum;
    });
    return std::accumulate(parts.begin(), parts.end(), 0.0);
  };
  const double expected = sum_with(1);
  for (const size_t threads : {2U, 3U, 5U, 16U}) {
    EXPECT_EQ(sum_with(threads), expected);
  }
}

TEST(ThreadPool, RunsNothingForNoItems) {
  ThreadPool pool(3);
  pool.ParallelFor(0, [](size_t, size_t) { FAIL(); });
}

TEST(ThreadPool, CanBeUsedManyTimesInARow) {
  ThreadPool pool(4);
  std::atomic<size_t> total{0};
  for (size_t round = 0; round < 2000; ++round) {
    pool.ParallelFor(round % 5, [&](size_t, size_t) { ++total; });
  }
  EXPECT_EQ(total, 2000U / 5U * (0 + 1 + 2 + 3 + 4));
}

TEST(UsableCores, IsAtLeastOne) {
  EXPECT_GE(UsableCores(), 1U);
  EXPECT_EQ(ThreadPool(0).thread_count(), UsableCores());
}

TEST(ThreadPool, WhatABodyThrowsArrivesWhereTheLoopWasBegun) {
  for (const size_t threads : {1U, 3U}) {
    ThreadPool pool(threads);
    EXPECT_THROW(pool.ParallelFor(100,
                                  [](size_t item, size_t) {
                                    if (item % 7 == 3) {
                                      throw std::bad_alloc();
                                    }
                                  }),
                 std::bad_alloc);
    std::atomic<int> calls{0};
    pool.ParallelFor(50, [&](size_t, size_t) { ++calls; });  // and the pool is as before
    EXPECT_EQ(calls, 50);
  }
}

TEST(ThreadPool, TheCallerDoesTheWorkWhereNoThreadsCanBeHad) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer ends the program itself where it gets no memory for a thread";
#endif
  if (test_support::IsEmulated()) {
    GTEST_SKIP() << "qemu keeps no limit of memory";
  }
  const auto end = test_support::RunInChild([] {
    // Room for the stacks of some threads, not of all.
    const rlimit limit{size_t{1} << 30U, size_t{1} << 30U};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) {
      return 1;
    }
    ThreadPool pool(4096);
    std::atomic<int> calls{0};
    pool.ParallelFor(1000, [&](size_t, size_t) { ++calls; });
    return pool.thread_count() == 1 && calls == 1000 ? 0 : 2;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(ThreadPool, TheCallerDoesTheWorkWhereMemoryEndsWhileThreadsAreMade) {
  for (int number = 0; number < 30; ++number) {
    test_support::g_allocations_left = number;
    ThreadPool pool(8);
    test_support::g_allocations_left = -1;
    EXPECT_TRUE(pool.thread_count() == 1 || pool.thread_count() == 8);
    std::atomic<int> calls{0};
    pool.ParallelFor(100, [&](size_t, size_t) { ++calls; });
    EXPECT_EQ(calls, 100) << number;
  }
}

}  // namespace
}  // namespace msprobe::base
