#include <string>

#include <gtest/gtest.h>

#include "src/json/tree_builder.h"

namespace msprobe::json::internal {
namespace {

std::string Strict(std::string_view text) {
  std::string strict = StrictJson(text);
  EXPECT_EQ(strict.size(), text.size());
  return strict;
}

TEST(StrictJson, LeavesStrictJsonAsItIs) {
  for (const std::string_view text :
       {R"({"a": [1, -2.5e3, true, null], "b": {"c": "d"}})", "", " \t\r\n",
        R"(["// no comment", "/* nor */ this", ",]", "NaN", "a\"b,", "\\", "\ud83d\ude00"])"}) {
    EXPECT_EQ(Strict(text), text);
  }
}

TEST(StrictJson, LooksOnceForTheEndOfCommentsThatHaveNone) {
  std::string text = "/* a */ ";
  for (int i = 0; i < 1'000'000; ++i) {
    text += "/* ";
  }
  std::string strict = text;
  strict.replace(0, 7, 7, ' ');
  EXPECT_EQ(Strict(text), strict);
}

TEST(StrictJson, BlanksCommentsAndKeepsTheirLines) {
  EXPECT_EQ(Strict("[1, // two\n2]"), "[1,       \n2]");
  EXPECT_EQ(Strict("[/* a\r\nb */1]"), "[     \n    1]");
  EXPECT_EQ(Strict("1//"), "1  ");
  EXPECT_EQ(Strict("/**/1/***/"), "    1     ");
}

TEST(StrictJson, LeavesACommentWithoutAnEnd) {
  EXPECT_EQ(Strict("[1 /* 2]"), "[1 /* 2]");
  EXPECT_EQ(Strict("[1 /*/"), "[1 /*/");
  EXPECT_EQ(Strict("[1 / 2]"), "[1 / 2]");
}

TEST(StrictJson, BlanksTrailingCommasOnly) {
  EXPECT_EQ(Strict("[1,]"), "[1 ]");
  EXPECT_EQ(Strict("{\"a\": \"b\" , // c\n }"), "{\"a\": \"b\"       \n }");
  EXPECT_EQ(Strict("[[1,],]"), "[[1 ] ]");
  for (const std::string_view text : {"[,]", "{,}", "[1,,]", "{\"a\":,}", ",]", "[1, 2]", "[1,"}) {
    EXPECT_EQ(Strict(text), text);
  }
}

TEST(StrictJson, MakesNulBytesVisibleOutsideOfTexts) {
  EXPECT_EQ(Strict(std::string_view("[1]\0\"\0\"", 7)), std::string_view("[1]\x01\"\0\"", 7));
}

TEST(StrictJson, EndsWhereTheTextEnds) {
  for (const std::string_view text :
       {"\"", "\"\\", "\"\\u", "\"\\u12", "\"\\ud800\\u", "/", "-Inf", "N", "\"\\ud800"}) {
    EXPECT_EQ(Strict(text), text);
  }
}

}  // namespace
}  // namespace msprobe::json::internal
