#include "src/analysis/perf/host_tree.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace msprobe::analysis::perf
