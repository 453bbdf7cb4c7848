#include "src/dump/stack_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

using test_support::TemporaryFolder;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StackFile, ReadsTheGroupedLayout) {
  const TemporaryFolder folder;
  const auto stacks = StackFile::Read(folder.Write(
      "stack.json",
      R"({"0": [["a.0.forward", "b.0.forward"], ["inner", "outer"]], "1": [["c"], []], "2": "odd"})"));
  ASSERT_TRUE(stacks.ok()) << stacks.status().message();
  EXPECT_TRUE(stacks->grouped_layout());
  ASSERT_NE(stacks->Find("b.0.forward"), nullptr);
  EXPECT_THAT(*stacks->Find("b.0.forward"), ElementsAre("inner", "outer"));
  EXPECT_EQ(stacks->Find("a.0.forward"), stacks->Find("b.0.forward"));
  EXPECT_TRUE(stacks->Find("c")->empty());
  EXPECT_EQ(stacks->Find("0"), nullptr);
  EXPECT_EQ(stacks->Find("nobody"), nullptr);
}

TEST(StackFile, ReadsTheFlatLayout) {
  const TemporaryFolder folder;
  const auto stacks =
      StackFile::Read(folder.Write("stack.json", R"({"a.0.forward": ["x\ny"], "0": []})"));
  ASSERT_TRUE(stacks.ok());
  EXPECT_FALSE(stacks->grouped_layout());
  EXPECT_THAT(*stacks->Find("a.0.forward"), ElementsAre("x\ny"));
}

TEST(StackFile, KnowsTheGroupedLayoutWhereverTheKeyZeroStands) {
  const TemporaryFolder folder;
  const auto stacks =
      StackFile::Read(folder.Write("stack.json", R"({"1": [["b"], ["y"]], "0": [["a"], ["x"]]})"));
  ASSERT_TRUE(stacks.ok());
  EXPECT_TRUE(stacks->grouped_layout());
  EXPECT_THAT(*stacks->Find("b"), ElementsAre("y"));
}

TEST(StackFile, RefusesAStackThatIsNoList) {
  const TemporaryFolder folder;
  const auto path = folder.Write("stack.json", R"({"a.0.forward": "text"})");
  const auto stacks = StackFile::Read(path);
  ASSERT_FALSE(stacks.ok());
  EXPECT_THAT(stacks.status().message(), HasSubstr("a.0.forward"));
  EXPECT_THAT(stacks.status().message(), HasSubstr(path.string()));
  EXPECT_FALSE(StackFile::Read(folder.Write("b.json", R"({"0": [["a"], 5]})")).ok());
}

TEST(StackFile, AcceptsNoStacksButNotNothing) {
  const TemporaryFolder folder;
  EXPECT_TRUE(StackFile::Read(folder.Write("a.json", "{}")).ok());
  EXPECT_FALSE(StackFile::Read(folder.Write("b.json", "")).ok());
  EXPECT_FALSE(StackFile::Read(folder.Write("c.json", R"({"0": [["a"])")).ok());
  EXPECT_FALSE(StackFile::Read(folder.path() / "d.json").ok());
}

TEST(StackFile, ReadsTheStacksOfACapturedModel) {
  const auto stacks =
      StackFile::Read(MSPROBE_TEST_DATA "/dump/gpt_statistics_mix/dump/step0/rank/stack.json");
  ASSERT_TRUE(stacks.ok());
  EXPECT_TRUE(stacks->grouped_layout());
  const auto* frames = stacks->Find("Functional.embedding.0.forward");
  ASSERT_NE(frames, nullptr);
  EXPECT_THAT(frames->front(), HasSubstr("File "));
}

TEST(ConstructFile, KnowsParentsAndTreatsNullAndEmptyTextAsRoots) {
  const TemporaryFolder folder;
  const auto construct = ConstructFile::Read(
      folder.Write("construct.json",
                   R"({"a": "p", "b": null, "c": "", "p": "q", "d": ["p", 2], "micro_steps": 4})"));
  ASSERT_TRUE(construct.ok());
  EXPECT_EQ(construct->ParentOf("a"), "p");
  EXPECT_EQ(construct->ParentOf("b"), "");
  EXPECT_EQ(construct->ParentOf("c"), "");
  EXPECT_EQ(construct->ParentOf("p"), "q");
  EXPECT_EQ(construct->ParentOf("d"), "p");
  EXPECT_EQ(construct->ParentOf("nobody"), "");
  EXPECT_FALSE(construct->empty());
}

TEST(ConstructFile, IsEmptyForACaptureOfApisAlone) {
  const auto construct = ConstructFile::Read(
      MSPROBE_TEST_DATA "/dump/gpt_statistics_L1/dump/step0/rank/construct.json");
  ASSERT_TRUE(construct.ok());
  EXPECT_TRUE(construct->empty());
  EXPECT_FALSE(ConstructFile::Read(MSPROBE_TEST_DATA
                                   "/dump/gpt_statistics_mix/dump/step0/rank/construct.json")
                   ->empty());
}

// The quick way ends at an escape; the parser then begins again.
TEST(ConstructFile, HoldsEveryMemberOnceWhereverAnEscapeStands) {
  const TemporaryFolder folder;
  for (size_t place = 0; place < 4; ++place) {
    std::string text = "{";
    for (size_t member = 0; member < 4; ++member) {
      text += (member == 0 ? "\"m" : ", \"m") + std::to_string(member) + "\": \"parent" +
              (member == place ? "\\u00e9" : "") + std::to_string(member / 2) + "\"";
    }
    const auto construct = ConstructFile::Read(
        folder.Write("construct.json", text + R"(, "m1": "late", "m5": null})"));
    ASSERT_TRUE(construct.ok()) << construct.status().message();
    ASSERT_EQ(construct->members().size(), 5U) << place;
    EXPECT_EQ(construct->members()[1].name, "m1");
    EXPECT_EQ(construct->ParentOf("m1"), "late");
    EXPECT_EQ(construct->ParentOf("m3"), place == 3 ? "parent\u00e91" : "parent1");
    EXPECT_EQ(construct->ParentOf("m5"), "");
    EXPECT_EQ(construct->Find("m6"), nullptr);
  }
}

TEST(ConstructFile, NamesThePlaceOfDamage) {
  const TemporaryFolder folder;
  const auto path = folder.Write("construct.json", "{\"a\": \"b\",\n \"c\" \"d\"}");
  EXPECT_THAT(ConstructFile::Read(path).status().message(), HasSubstr("line 2 column 6"));
}

}  // namespace
}  // namespace msprobe::dump
