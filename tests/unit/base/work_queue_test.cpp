#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/threads.h"

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;

using Numbers = WorkQueue<int>;

Patience AtMost(std::chrono::milliseconds time) {
  return [time](uint64_t /*in_use*/) { return time; };
}

// Work that waits until it is let go.
class Gate {
 public:
  void Open() { opened_.set_value(); }
  void Pass() const { future_.wait(); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> future_ = opened_.get_future().share();
};

TEST(WorkQueue, DoesItsWorkInOrderAndAllOfItBeforeItEnds) {
  std::vector<int> done;
  {
    Numbers queue({}, [&done](int number) { done.push_back(number); });
    for (int number : {1, 2, 3}) {
      EXPECT_EQ(queue.TryAdd(number), Numbers::Added::kYes);
    }
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(WorkQueue, CountsWhatIsWorkedOnAgainstItsLimit) {
  Gate gate;
  Numbers queue({.most = 2}, [&gate](int /*number*/) { gate.Pass(); });
  int number = 7;
  EXPECT_EQ(queue.TryAdd(number), Numbers::Added::kYes);
  EXPECT_TRUE(queue.has_room());
  EXPECT_EQ(queue.TryAdd(number), Numbers::Added::kYes);
  EXPECT_FALSE(queue.has_room());
  EXPECT_EQ(queue.TryAdd(number), Numbers::Added::kNoRoom);
  EXPECT_EQ(queue.Add(number, 1, AtMost(std::chrono::milliseconds(1))), Numbers::Added::kNoRoom);
  EXPECT_FALSE(queue.WaitUntilIdle(AtMost(std::chrono::milliseconds(1))));
  gate.Open();
  EXPECT_EQ(queue.Add(number, 1, {}), Numbers::Added::kYes);
  EXPECT_TRUE(queue.WaitUntilIdle());
  EXPECT_EQ(queue.finished_count(), 3U);
}

TEST(WorkQueue, LetsAnItemThatIsTooHeavyPassAlone) {
  std::atomic<int> sum{0};
  WorkQueue<std::string> queue(
      {.most = 4}, [&sum](const std::string& text) { sum += static_cast<int>(text.size()); });
  for (int i = 0; i < 10; ++i) {
    std::string text = "much longer";
    EXPECT_EQ(queue.Add(text, text.size(), {}), WorkQueue<std::string>::Added::kYes);
  }
  EXPECT_TRUE(queue.WaitUntilIdle());
  EXPECT_EQ(sum.load(), 110);
}

TEST(WorkQueue, GivesBackWhatComesAfterTheEnd) {
  WorkQueue<std::unique_ptr<int>> queue({}, [](const std::unique_ptr<int>& /*item*/) {});
  queue.StopWithin({});
  queue.StopWithin({});
  auto item = std::make_unique<int>(3);
  EXPECT_EQ(queue.TryAdd(item), WorkQueue<std::unique_ptr<int>>::Added::kRefused);
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(queue.Start().code(), StatusCode::kInternal);
}

TEST(WorkQueue, DestroysAnItemBeforeItCountsAsFinished) {
  const auto witness = std::make_shared<int>(1);
  WorkQueue<std::shared_ptr<int>> queue({}, [](const std::shared_ptr<int>& /*item*/) {});
  for (int i = 0; i < 100; ++i) {
    std::shared_ptr<int> item = witness;
    ASSERT_EQ(queue.TryAdd(item), WorkQueue<std::shared_ptr<int>>::Added::kYes);
    queue.WaitForMoreThan(static_cast<uint64_t>(i));
    ASSERT_EQ(witness.use_count(), 1);
  }
}

TEST(WorkQueue, LeavesThreadsThatHangToThemselves) {
  auto gate = std::make_shared<Gate>();
  auto over = std::make_shared<std::promise<void>>();
  {
    Numbers queue({.threads = 2}, [gate, over](int /*number*/) {
      gate->Pass();
      over->set_value();
    });
    int number = 1;
    ASSERT_EQ(queue.TryAdd(number), Numbers::Added::kYes);
    queue.StopWithin(AtMost(std::chrono::milliseconds(1)));
  }
  gate->Open();
  over->get_future().wait();
}

TEST(WorkQueue, CallsBackWhenThereIsNothingToDo) {
  std::promise<void> idle;
  bool is_told = false;
  Numbers queue({.when_idle =
                     [&] {
                       if (!is_told) {
                         is_told = true;
                         idle.set_value();
                       }
                     },
                 .idle_interval = std::chrono::milliseconds(1)},
                [](int /*number*/) {});
  ASSERT_TRUE(queue.Start().ok());
  idle.get_future().wait();
}

TEST(WorkQueue, SharesItsWorkAmongThreadsAndCallers) {
  constexpr int kEach = 200;
  std::atomic<int> done{0};
  Numbers queue({.threads = 3, .most = 8}, [&done](int number) { done += number; });
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&queue] {
      for (int i = 0; i < kEach; ++i) {
        int one = 1;
        EXPECT_EQ(queue.Add(one, 1, {}), Numbers::Added::kYes);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  queue.StopWithin({});
  EXPECT_EQ(done.load(), 4 * kEach);
}

TEST(Budget, GivesWhatThereIsAndNoMore) {
  Budget budget(10);
  EXPECT_FALSE(budget.TryTake(11));
  EXPECT_FALSE(budget.Take(11, AtMost(std::chrono::hours(1))));
  EXPECT_TRUE(budget.TryTake(10));
  EXPECT_FALSE(budget.TryTake(1));
  EXPECT_TRUE(budget.TryTake(0));
  EXPECT_FALSE(budget.Take(1, AtMost(std::chrono::milliseconds(1))));
  EXPECT_FALSE(budget.WaitUntilUnused(AtMost(std::chrono::milliseconds(1))));
  std::thread other([&budget] { budget.GiveBack(10); });
  EXPECT_TRUE(budget.Take(4, AtMost(std::chrono::hours(1))));
  other.join();
  budget.GiveBack(4);
  EXPECT_TRUE(budget.WaitUntilUnused(AtMost(std::chrono::milliseconds(1))));
}

TEST(FirstError, IsKeptUntilItIsTaken) {
  FirstError error;
  error.Note({});
  EXPECT_TRUE(error.Take().ok());
  error.Note(IoError("first"));
  error.Note(IoError("second"));
  EXPECT_EQ(error.Take().message(), "first");
  EXPECT_TRUE(error.Take().ok());
}

}  // namespace
}  // namespace msprobe::base
