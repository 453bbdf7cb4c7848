#include <cstdint>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/perf/device_work.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;

std::string NameOf(MadeProfile& made, const HostTree& tree, uint32_t node) {
  return node == HostTree::kNone ? "" : std::string(made->texts[tree[node].name]);
}

TEST(HostTree, WhatTouchesIsNotInside) {
  MadeProfile made;
  made.Op("first", 0, 10);
  made.Op("second", 10, 20);
  const HostTree tree(*made);
  ASSERT_EQ(tree.nodes().size(), 2U);
  EXPECT_EQ(tree[1].parent, HostTree::kNone);
  EXPECT_EQ(tree[0].self, 10'000);
  EXPECT_EQ(tree[1].self, 10'000);
}

TEST(HostTree, OfTwoThatBeginTogetherTheLongerOneIsOutside) {
  MadeProfile made;
  made.Op("inner", 0, 10);
  made.Op("outer", 0, 20);
  made.Op("empty", 0, 0);
  const HostTree tree(*made);
  EXPECT_EQ(NameOf(made, tree, 0), "outer");
  EXPECT_EQ(NameOf(made, tree, tree[1].parent), "outer");
  EXPECT_EQ(tree[0].self, 10'000);
}

TEST(HostTree, ThreadsAreApartAndSelfTimeIsNeverNegative) {
  MadeProfile made;
  made.Op("main", 0, 10, "1");
  made.Op("other thread", 2, 8, "2");
  made.Op("outlives its caller", 5, 30, "1");
  made.Op("caller of nobody", 40, 50, "1");
  const HostTree tree(*made);
  for (const HostTree::Node& node : tree.nodes()) {
    EXPECT_GE(node.self, 0);
  }
  EXPECT_EQ(tree[0].self, 5'000);
  const uint32_t found = tree.Find(made.Text("100"), made.Text("2"), 3'000);
  EXPECT_EQ(NameOf(made, tree, found), "other thread");
  EXPECT_EQ(tree[found].parent, HostTree::kNone);
}

// A frame that ends one step and begins the next: what goes on around it loses the step's time,
// too.
TEST(HostTree, EveryMomentIsTheInnermostCallsOwn) {
  MadeProfile made;
  made.Op("root", 0, 100);
  made.Op("crosses", 8, 23);
  made.Op("step", 10, 60);
  made.Op("inside", 30, 40);
  made.Op("crosses again", 55, 70);
  const HostTree tree(*made);
  std::map<std::string, int64_t> own;
  int64_t sum = 0;
  for (uint32_t node = 0; node < tree.nodes().size(); ++node) {
    own[NameOf(made, tree, node)] = tree[node].self;
    sum += tree[node].self;
  }
  EXPECT_EQ(own, (std::map<std::string, int64_t>{{"root", 38'000},
                                                 {"crosses", 2'000},
                                                 {"step", 35'000},
                                                 {"inside", 10'000},
                                                 {"crosses again", 15'000}}));
  EXPECT_EQ(sum, 100'000);
}

TEST(HostTree, FindsTheInnermost) {
  MadeProfile made;
  made.Op("outer", 0, 100);
  made.Op("inner", 10, 20);
  const HostTree tree(*made);
  const auto at = [&](int64_t ns) {
    return NameOf(made, tree, tree.Find(made.Text("100"), made.Text("1"), ns));
  };
  EXPECT_EQ(at(10'000), "inner");
  EXPECT_EQ(at(19'999), "inner");
  EXPECT_EQ(at(20'000), "outer");
  EXPECT_EQ(at(100'000), "");
  EXPECT_EQ(NameOf(made, tree, tree.Find(made.Text("100"), profile::kNoText, 15'000)), "inner");
  EXPECT_EQ(tree.Find(made.Text("100"), made.Text("9"), 15'000), HostTree::kNone);
}

TEST(HostTree, StretchesAddUpToTheWholeTime) {
  MadeProfile made;
  made.Op("outer", 10, 60);
  made.Op("inner", 20, 30);
  made.Op("next", 60, 70);
  const HostTree tree(*made);
  std::map<std::string, int64_t> times;
  tree.VisitStretches(made.Text("100"), made.Text("1"), 0, 100'000,
                      [&](uint32_t node, int64_t ns) { times[NameOf(made, tree, node)] += ns; });
  EXPECT_EQ(times, (std::map<std::string, int64_t>{
                       {"", 40'000}, {"outer", 40'000}, {"inner", 10'000}, {"next", 10'000}}));
}

TEST(HostTree, TellsMarkedRangesFromOperators) {
  EXPECT_TRUE(IsAnnotationName("## forward ##"));
  EXPECT_TRUE(IsAnnotationName("Optimizer.step#Adam.step"));
  EXPECT_FALSE(IsAnnotationName("aten::mm"));
  MadeProfile made;
  made.Op("ProfilerStep#3", 0, 100);
  made.Op("## forward ##", 0, 100);
  made.Op("aten::mm", 0, 100);
  const HostTree tree(*made);
  EXPECT_EQ(tree[0].kind, HostTree::Kind::kStep);
  EXPECT_EQ(tree[1].kind, HostTree::Kind::kAnnotation);
  EXPECT_EQ(tree[2].kind, HostTree::Kind::kOperator);
}

TEST(HostTree, FindsBehindANestOfAnyDepth) {
  // The outermost call goes on; 100,000 within it have ended.
  constexpr int64_t kDepth = 100'000;
  MadeProfile made;
  made.Op("outermost", 0, 10 * kDepth);
  for (int64_t i = 1; i < kDepth; ++i) {
    made.Op("call", i, 2 * kDepth - i);
  }
  const HostTree tree(*made);
  const profile::TextId process = made.Text("100");
  const profile::TextId thread = made.Text("1");
  for (int64_t i = 0; i < kDepth; ++i) {
    ASSERT_EQ(tree.Find(process, thread, (2 * kDepth + i) * 1000), 0U);
  }
  EXPECT_EQ(tree.Find(process, thread, 10 * kDepth * 1000), HostTree::kNone);
  // Those that are still open.
  for (int64_t i = 1; i < kDepth; i += 997) {
    ASSERT_EQ(tree.Find(process, thread, (2 * kDepth - i) * 1000 - 1), static_cast<uint32_t>(i));
  }
}

// On every thread one after the other.
uint32_t FoundOnAny(MadeProfile& made, const HostTree& tree, int threads, int64_t at) {
  uint32_t best = HostTree::kNone;
  for (int thread = 0; thread < threads; ++thread) {
    const uint32_t node = tree.Find(made.Text("100"), made.Text(std::to_string(thread)), at);
    if (node != HostTree::kNone &&
        (best == HostTree::kNone || tree[node].start > tree[best].start)) {
      best = node;
    }
  }
  return best;
}

TEST(HostTree, FindsTheSameOnAnyOfManyThreadsAsOnEach) {
  constexpr int kThreads = 20;
  std::mt19937 engine(3);
  const auto random = [&](int64_t below) {
    return std::uniform_int_distribution<int64_t>(0, below - 1)(engine);
  };
  MadeProfile made;
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < 100; ++i) {
      const int64_t start = random(500);
      const int64_t length = random(10) == 0 ? random(400) : random(20);
      made.Op("call", start, start + length, std::to_string(thread));
    }
  }
  const HostTree tree(*made);
  for (int64_t at = -500; at < 1'000'000; at += 500) {
    ASSERT_EQ(tree.Find(made.Text("100"), profile::kNoText, at),
              FoundOnAny(made, tree, kThreads, at))
        << at;
  }
}

TEST(HostTree, FindsOnAnyNumberOfThreads) {
  constexpr int64_t kThreads = 50'000;
  MadeProfile made;
  for (int64_t i = 0; i < kThreads; ++i) {
    made.Op("call", i, 10 * kThreads, std::to_string(i));
  }
  const HostTree tree(*made);
  for (int64_t i = 0; i < 2 * kThreads; ++i) {
    ASSERT_EQ(tree.Find(made.Text("100"), profile::kNoText, (kThreads + i) * 1000),
              static_cast<uint32_t>(kThreads - 1));
  }
}

}  // namespace
}  // namespace msprobe::analysis::perf
