#include "src/base/thread_pool.h"

#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace msprobe::base
