#include "src/online/inbox.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/online/call_maker.h"

namespace msprobe::online {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::CallOf;

constexpr milliseconds kNow{0};

std::chrono::steady_clock::time_point In(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

TEST(OnlineInbox, CallsOfASessionAreTakenOnceAndInOrder) {
  Inbox inbox(InboxOptions{});
  ASSERT_TRUE(inbox.Begin(7, {0, "pytorch"}, 0).ok());
  EXPECT_TRUE(inbox.Put(7, 1, CallOf("a", {1}), 0).ok());
  EXPECT_FALSE(inbox.Put(7, 3, CallOf("c", {1}), 0).ok()) << "a gap";
  EXPECT_TRUE(inbox.Put(7, 2, CallOf("b", {1}), 0).ok());
  EXPECT_TRUE(inbox.Put(7, 1, CallOf("a", {1}), 0).ok()) << "sent again: dropped";
  EXPECT_EQ(inbox.taken(7), 2U);
  EXPECT_FALSE(inbox.Put(8, 1, CallOf("x", {1}), 0).ok()) << "a session that has not begun";
  EXPECT_EQ(inbox.Take(kNow)->call.name, "a");
  const auto second = inbox.Take(kNow);
  EXPECT_EQ(second->call.name, "b");
  EXPECT_EQ(second->number, 1U);
  EXPECT_FALSE(inbox.Take(kNow).has_value());
}

TEST(OnlineInbox, ASessionThatComesBackHearsWhatWasTaken) {
  Inbox inbox(InboxOptions{});
  EXPECT_EQ(*inbox.Begin(7, {0, "pytorch"}, 0), 0U);
  ASSERT_TRUE(inbox.Put(7, 1, CallOf("a", {1}), 0).ok());
  inbox.Absent(7);
  EXPECT_EQ(*inbox.Begin(7, {0, "pytorch"}, 0), 1U);
  // What an earlier checker took is not asked for again.
  EXPECT_EQ(*inbox.Begin(9, {1, "pytorch"}, 40), 40U);
  EXPECT_TRUE(inbox.Put(9, 41, CallOf("b", {1}, 1), 0).ok());
}

TEST(OnlineInbox, OnlyExpectedRanksAndFrameworksAreLetIn) {
  InboxOptions options;
  options.ranks = {0, 2};
  Inbox inbox(options);
  EXPECT_TRUE(inbox.Begin(1, {0, "pytorch"}, 0).ok());
  EXPECT_FALSE(inbox.Begin(2, {1, "pytorch"}, 0).ok());
  EXPECT_FALSE(inbox.Begin(3, {2, "mindspore"}, 0).ok());
  EXPECT_FALSE(inbox.Begin(1, {2, "pytorch"}, 0).ok()) << "a session keeps its rank";
}

TEST(OnlineInbox, AFullInboxMakesReceiversWait) {
  InboxOptions options;
  options.most_bytes = 100;
  Inbox inbox(options);
  ASSERT_TRUE(inbox.Begin(1, {0, "pytorch"}, 0).ok());
  EXPECT_FALSE(inbox.Reserve(101, In(kNow)).ok()) << "larger than all room";
  EXPECT_TRUE(*inbox.Reserve(60, In(kNow)));
  EXPECT_FALSE(*inbox.Reserve(41, In(kNow)));
  ASSERT_TRUE(inbox.Put(1, 1, CallOf("a", {1}), 60).ok());
  std::thread judge([&inbox] { inbox.Done(*inbox.Take(seconds(10))); });
  EXPECT_TRUE(*inbox.Reserve(41, In(seconds(10))));
  judge.join();
  inbox.Close();
  EXPECT_FALSE(*inbox.Reserve(1, In(seconds(10)))) << "closed";
}

TEST(OnlineInbox, ItIsOverWhenAllExpectedRanksHaveEnded) {
  InboxOptions options;
  options.ranks = {0, 1};
  Inbox inbox(options);
  EXPECT_FALSE(inbox.is_over());
  ASSERT_TRUE(inbox.Begin(1, {0, "pytorch"}, 0).ok());
  inbox.End(1, {0, 3, 0});
  EXPECT_FALSE(inbox.is_over()) << "rank 1 has not come yet";
  ASSERT_TRUE(inbox.Begin(2, {1, "pytorch"}, 0).ok());
  ASSERT_TRUE(inbox.Put(2, 1, CallOf("a", {1}, 1), 0).ok());
  inbox.End(2, {});
  EXPECT_FALSE(inbox.is_over()) << "a call waits";
  EXPECT_TRUE(inbox.Take(kNow).has_value());
  EXPECT_TRUE(inbox.is_over());
  EXPECT_EQ(inbox.news().at(0).dropped, 3U);
  EXPECT_TRUE(inbox.news().at(1).has_ended);
}

TEST(OnlineInbox, ASessionThatIsGoneForLongHasEnded) {
  InboxOptions options;
  options.ranks = {0};
  options.absence = seconds(0);
  Inbox inbox(options);
  ASSERT_TRUE(inbox.Begin(1, {0, "pytorch"}, 0).ok());
  EXPECT_FALSE(inbox.is_over()) << "it is connected";
  inbox.Absent(1);
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_TRUE(inbox.is_over());
  EXPECT_FALSE(inbox.news().at(0).has_ended) << "it did not say so";
}

TEST(OnlineInbox, WhereNobodyIsExpectedItWaitsALittleForOthers) {
  InboxOptions options;
  options.quiet = seconds(0);
  Inbox inbox(options);
  EXPECT_FALSE(inbox.is_over()) << "nobody has come";
  ASSERT_TRUE(inbox.Begin(1, {5, "pytorch"}, 0).ok());
  inbox.End(1, {});
  inbox.Absent(1);
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_TRUE(inbox.is_over());
}

}  // namespace
}  // namespace msprobe::online
