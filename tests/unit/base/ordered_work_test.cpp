#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "src/base/threads.h"

namespace msprobe::base {
namespace {

TEST(MakeInOrder, BlocksAreTakenInOrderWhateverTheTimeTheyTake) {
  for (const size_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::string taken;
    std::string expected;
    for (size_t number = 0; number < 200; ++number) {
      expected += std::to_string(number) + ",";
    }
    const Status status = MakeInOrder<std::string>(
        pool, 200,
        [](size_t number, size_t /*worker*/, std::string& block) -> Status {
          if (number % 7 == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          block = std::to_string(number) + ",";
          return {};
        },
        [&taken](std::string& block) -> Status {
          taken += block;
          return {};
        });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(taken, expected) << threads;
  }
}

TEST(MakeInOrder, NoMoreThanTwoBlocksPerThreadAreAhead) {
  ThreadPool pool(4);
  std::atomic<size_t> taken = 0;
  std::atomic<size_t> farthest = 0;
  const Status status = MakeInOrder<size_t>(
      pool, 100,
      [&](size_t number, size_t /*worker*/, size_t& block) -> Status {
        const size_t ahead = number - taken.load();
        size_t seen = farthest.load();
        while (ahead > seen && ahead < 100 && !farthest.compare_exchange_weak(seen, ahead)) {
        }
        block = number;
        return {};
      },
      [&](size_t& /*block*/) -> Status {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++taken;
        return {};
      });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(taken.load(), 100U);
  EXPECT_LE(farthest.load(), 8U);
}

TEST(MakeInOrder, TheFirstErrorInOrderStopsTheWork) {
  ThreadPool pool(3);
  size_t taken = 0;
  const Status status = MakeInOrder<int>(
      pool, 1000,
      [](size_t number, size_t /*worker*/, int& /*block*/) -> Status {
        return number >= 20 ? IoError("made " + std::to_string(number)) : Status();
      },
      [&taken](int& /*block*/) -> Status {
        ++taken;
        return {};
      });
  EXPECT_EQ(status.message(), "made 20");
  EXPECT_EQ(taken, 20U);
  const Status refused = MakeInOrder<int>(
      pool, 1000, [](size_t, size_t, int&) -> Status { return {}; },
      [](int& /*block*/) -> Status { return IoError("full"); });
  EXPECT_EQ(refused.message(), "full");
}

TEST(MakeInOrder, NobodyWaitsForABlockWhoseMemoryRanOut) {
  ThreadPool pool(4);
  EXPECT_THROW(MakeInOrder<int>(
                   pool, 1000,
                   [](size_t number, size_t, int&) -> Status {
                     if (number == 5) {
                       throw std::bad_alloc();
                     }
                     return {};
                   },
                   [](int& /*block*/) -> Status { return {}; }),
               std::bad_alloc);
}

}  // namespace
}  // namespace msprobe::base
