#include "src/json/value_tree.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::json {
namespace {

// {"shape": [2, 3], "Max": 1.50, "name": "a"}
void BuildSmallTensor(ValueTreeBuilder& builder) {
  builder.Reset();
  builder.Begin(ValueKind::kObject);
  builder.Key("shape");
  builder.Begin(ValueKind::kList);
  builder.Int(2);
  builder.Int(3);
  builder.End();
  builder.Key("Max");
  builder.Float(1.5, "1.50");
  builder.Key("name");
  builder.Text("a");
  builder.End();
}

TEST(ValueTree, KeepsDocumentOrderWithSiblingsReachableByTheirEnds) {
  ValueTreeBuilder builder;
  BuildSmallTensor(builder);
  ASSERT_TRUE(builder.complete());
  const ValueTree& tree = builder.tree();
  ASSERT_EQ(tree.size(), 6U);
  EXPECT_EQ(tree[0].kind, ValueKind::kObject);
  EXPECT_EQ(tree[0].child_count, 3U);
  EXPECT_EQ(tree[0].end, 6U);
  std::vector<std::string> keys;
  tree.ForEachChild(0, [&](uint32_t child) { keys.emplace_back(tree[child].key); });
  EXPECT_EQ(keys, (std::vector<std::string>{"shape", "Max", "name"}));
  const uint32_t shape = tree.Find(0, "shape");
  ASSERT_EQ(shape, 1U);
  EXPECT_EQ(tree[shape].child_count, 2U);
  EXPECT_EQ(tree[shape + 2].integer, 3);
  EXPECT_EQ(tree[shape + 2].number, 3.0);
}

TEST(ValueTree, KeepsTheDigitsOfFloatsAsWritten) {
  ValueTreeBuilder builder;
  BuildSmallTensor(builder);
  const uint32_t max = builder.tree().Find(0, "Max");
  EXPECT_EQ(builder.tree()[max].text, "1.50");
  EXPECT_EQ(builder.tree()[max].number, 1.5);
}

TEST(ValueTree, FindsNothingUnderAnUnknownKeyOrInAList) {
  ValueTreeBuilder builder;
  BuildSmallTensor(builder);
  EXPECT_EQ(builder.tree().Find(0, "Min"), ValueTree::kNone);
  EXPECT_EQ(builder.tree().Find(1, ""), ValueTree::kNone);
}

TEST(ValueTree, FindsTheLastOfTwoMembersWithOneKeyAsPythonDoes) {
  ValueTreeBuilder builder;
  builder.Begin(ValueKind::kObject);
  builder.Key("a");
  builder.Int(1);
  builder.Key("a");
  builder.Int(2);
  builder.End();
  EXPECT_EQ(builder.tree()[builder.tree().Find(0, "a")].integer, 2);
}

TEST(ValueTree, KeepsEarlierTextsWhileItsTextGrows) {
  ValueTreeBuilder builder;
  builder.Begin(ValueKind::kObject);
  for (int i = 0; i < 2000; ++i) {
    builder.Key("key" + std::to_string(i));
    builder.Text(std::string(static_cast<size_t>(i % 50), 'x') + std::to_string(i));
  }
  builder.End();
  const ValueTree& tree = builder.tree();
  ASSERT_EQ(tree[0].child_count, 2000U);
  for (uint32_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(tree[i + 1].key, "key" + std::to_string(i));
    ASSERT_EQ(tree[i + 1].text, std::string(i % 50, 'x') + std::to_string(i));
  }
}

TEST(ValueTree, CopiesAndMovedTreesOwnTheirTexts) {
  ValueTree copy;
  ValueTree moved;
  {
    ValueTreeBuilder builder;
    BuildSmallTensor(builder);
    copy = builder.tree();
    ValueTree second = builder.tree();
    moved = std::move(second);
    builder.Reset();
    builder.Text("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
  }
  EXPECT_EQ(copy[copy.Find(0, "name")].text, "a");
  EXPECT_EQ(moved[moved.Find(0, "Max")].text, "1.50");
}

// Whether the quick walk or the parser read them, and whatever the memory held before.
TEST(ValueTree, MemoryIsUsedAgainFromTextToText) {
  ValueTree tree;
  ValueTree kept;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& value : {std::string("short"), std::string(5000, 'l'),
                                     std::string(R"(with \"quotes\")"), std::string("s")}) {
      auto text = std::make_unique<std::string>(R"({"key": [")" + value + R"(", 1.50]})");
      ASSERT_TRUE(ParseValueTree(*text, tree).ok());
      text.reset();  // nothing is left of it but the tree
      ASSERT_EQ(tree.size(), 4U);
      EXPECT_EQ(tree[1].key, "key");
      EXPECT_EQ(tree[2].text, value.starts_with("with") ? R"(with "quotes")" : value);
      EXPECT_EQ(tree[3].text, "1.50");
      if (value == "short") {
        kept = tree;
      }
      EXPECT_FALSE(ParseValueTree(R"({"key": ["damaged", )", tree).ok());
    }
  }
  EXPECT_EQ(kept[1].key, "key");
  EXPECT_EQ(kept[2].text, "short");
}

TEST(ValueTreeBuilder, IsCompleteAfterOneWholeValueOnly) {
  ValueTreeBuilder builder;
  EXPECT_FALSE(builder.complete());
  builder.Begin(ValueKind::kList);
  builder.Begin(ValueKind::kList);
  builder.End();
  EXPECT_FALSE(builder.complete());
  builder.End();
  EXPECT_TRUE(builder.complete());
  builder.Reset();
  EXPECT_FALSE(builder.complete());
  builder.Null();
  EXPECT_TRUE(builder.complete());
}

TEST(ValueTreeBuilder, RefusesMoreNodesThanAnEntryCanReasonablyHave) {
  ValueTreeBuilder builder;
  builder.Begin(ValueKind::kList);
  for (uint32_t i = 1; i < ValueTreeBuilder::kMaxNodes; ++i) {
    ASSERT_TRUE(builder.Null());
  }
  EXPECT_FALSE(builder.Null());
  EXPECT_FALSE(builder.Begin(ValueKind::kList));
}

}  // namespace
}  // namespace msprobe::json
