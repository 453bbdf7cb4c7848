#include "src/dump/entry_tree.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

// {"shape": [2, 3], "Max": 1.50, "name": "a"}
void BuildSmallTensor(EntryTreeBuilder& builder) {
  builder.Reset();
  builder.OnBeginObject();
  builder.OnKey("shape");
  builder.OnBeginArray();
  builder.OnInt(2);
  builder.OnInt(3);
  builder.OnEndArray();
  builder.OnKey("Max");
  builder.OnFloat(1.5, "1.50");
  builder.OnKey("name");
  builder.OnText("a");
  builder.OnEndObject();
}

TEST(EntryTree, KeepsDocumentOrderWithSiblingsReachableByTheirEnds) {
  EntryTreeBuilder builder;
  BuildSmallTensor(builder);
  ASSERT_TRUE(builder.complete());
  const EntryTree& tree = builder.tree();
  ASSERT_EQ(tree.size(), 6U);
  EXPECT_EQ(tree[0].kind, NodeKind::kObject);
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

TEST(EntryTree, KeepsTheDigitsOfFloatsAsWritten) {
  EntryTreeBuilder builder;
  BuildSmallTensor(builder);
  const uint32_t max = builder.tree().Find(0, "Max");
  EXPECT_EQ(builder.tree()[max].text, "1.50");
  EXPECT_EQ(builder.tree()[max].number, 1.5);
}

TEST(EntryTree, FindsNothingUnderAnUnknownKeyOrInAList) {
  EntryTreeBuilder builder;
  BuildSmallTensor(builder);
  EXPECT_EQ(builder.tree().Find(0, "Min"), EntryTree::kNone);
  EXPECT_EQ(builder.tree().Find(1, ""), EntryTree::kNone);
}

TEST(EntryTree, FindsTheLastOfTwoMembersWithOneKeyAsPythonDoes) {
  EntryTreeBuilder builder;
  builder.OnBeginObject();
  builder.OnKey("a");
  builder.OnInt(1);
  builder.OnKey("a");
  builder.OnInt(2);
  builder.OnEndObject();
  EXPECT_EQ(builder.tree()[builder.tree().Find(0, "a")].integer, 2);
}

TEST(EntryTree, KeepsEarlierTextsWhileItsTextGrows) {
  EntryTreeBuilder builder;
  builder.OnBeginObject();
  for (int i = 0; i < 2000; ++i) {
    builder.OnKey("key" + std::to_string(i));
    builder.OnText(std::string(static_cast<size_t>(i % 50), 'x') + std::to_string(i));
  }
  builder.OnEndObject();
  const EntryTree& tree = builder.tree();
  ASSERT_EQ(tree[0].child_count, 2000U);
  for (uint32_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(tree[i + 1].key, "key" + std::to_string(i));
    ASSERT_EQ(tree[i + 1].text, std::string(i % 50, 'x') + std::to_string(i));
  }
}

TEST(EntryTree, CopiesAndMovedTreesOwnTheirTexts) {
  EntryTree copy;
  EntryTree moved;
  {
    EntryTreeBuilder builder;
    BuildSmallTensor(builder);
    copy = builder.tree();
    EntryTree second = builder.tree();
    moved = std::move(second);
    builder.Reset();
    builder.OnText("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
  }
  EXPECT_EQ(copy[copy.Find(0, "name")].text, "a");
  EXPECT_EQ(moved[moved.Find(0, "Max")].text, "1.50");
}

// Whether the quick walk or the parser read them, and whatever the memory held before.
TEST(EntryTree, MemoryIsUsedAgainFromTextToText) {
  EntryTree tree;
  EntryTree kept;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& value : {std::string("short"), std::string(5000, 'l'),
                                     std::string(R"(with \"quotes\")"), std::string("s")}) {
      auto text = std::make_unique<std::string>(R"({"key": [")" + value + R"(", 1.50]})");
      ASSERT_TRUE(ParseEntry(*text, tree).ok());
      text.reset();  // nothing is left of it but the tree
      ASSERT_EQ(tree.size(), 4U);
      EXPECT_EQ(tree[1].key, "key");
      EXPECT_EQ(tree[2].text, value.starts_with("with") ? R"(with "quotes")" : value);
      EXPECT_EQ(tree[3].text, "1.50");
      if (value == "short") {
        kept = tree;
      }
      EXPECT_FALSE(ParseEntry(R"({"key": ["damaged", )", tree).ok());
    }
  }
  EXPECT_EQ(kept[1].key, "key");
  EXPECT_EQ(kept[2].text, "short");
}

TEST(EntryTreeBuilder, IsCompleteAfterOneWholeValueOnly) {
  EntryTreeBuilder builder;
  EXPECT_FALSE(builder.complete());
  builder.OnBeginArray();
  builder.OnBeginArray();
  builder.OnEndArray();
  EXPECT_FALSE(builder.complete());
  builder.OnEndArray();
  EXPECT_TRUE(builder.complete());
  builder.Reset();
  EXPECT_FALSE(builder.complete());
  builder.OnNull();
  EXPECT_TRUE(builder.complete());
}

TEST(EntryTreeBuilder, RefusesMoreNodesThanAnEntryCanReasonablyHave) {
  EntryTreeBuilder builder;
  builder.OnBeginArray();
  for (uint32_t i = 1; i < EntryTreeBuilder::kMaxNodes; ++i) {
    ASSERT_TRUE(builder.OnNull());
  }
  EXPECT_FALSE(builder.OnNull());
  EXPECT_FALSE(builder.OnBeginArray());
}

}  // namespace
}  // namespace msprobe::dump
