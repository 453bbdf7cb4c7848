#include <gtest/gtest.h>

#include "src/base/csv.h"

namespace msprobe::base {
namespace {

std::string CellOf(std::string_view text) {
  std::string out;
  AppendCsvText(text, out);
  return out;
}

// The same cases as those of tests/python/torch/files_test.py.
TEST(AppendCsvText, DisarmsFormulasInEveryWidth) {
  for (const char* text : {"=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "＝1+1", "＠SUM(A1)", "＋1", "－1",
                           "＝cmd|' /C calc'!A0", "=", "@", "  =1", " \t＝1", "\xC2\xA0=1",
                           "\xE3\x80\x80＝1", "\xE2\x80\x8B=1", "\xEF\xBB\xBF＋1", " +a", "\tx"}) {
    EXPECT_EQ(CellOf(text), std::string("'") + text) << text;
  }
  EXPECT_EQ(CellOf("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(CellOf("\n＝1"), "\"'\n＝1\"");
  EXPECT_EQ(CellOf("\"=1\""), "\"'\"\"=1\"\"\"");
  EXPECT_EQ(CellOf("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
}

TEST(AppendCsvText, LeavesOtherTextsAlone) {
  for (const char* text : {"", "a=b", "a＝b", "-1", "-inf", "+0.5", " -1", "-0.5;0.25", "-", "＋",
                           "－", "  ", "layer.0.weight", "'=1", "１＋１"}) {
    EXPECT_EQ(CellOf(text), text);
  }
  EXPECT_EQ(CellOf("a,b"), "\"a,b\"");
  EXPECT_EQ(CellOf("a\"b"), "\"a\"\"b\"");
}

// Wherever in a text of any length: what the quick way takes as it is, the slow one leaves alone.
TEST(IsPlainCsvText, HoldsOnlyForTextsThatNeedNothing) {
  size_t plain = 0;
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t length = 1; length < 20; ++length) {
      for (size_t at = 0; at < length; ++at) {
        std::string text(length, 'x');
        text[at] = static_cast<char>(byte);
        if (!IsPlainCsvText(text)) {
          continue;
        }
        ++plain;
        EXPECT_FALSE(LooksLikeFormula(text)) << byte;
        EXPECT_TRUE(byte >= 0x20 && byte < 0x7F && byte != ',' && byte != '"') << byte;
      }
    }
  }
  EXPECT_GT(plain, 10'000U);
  EXPECT_TRUE(IsPlainCsvText(""));
  EXPECT_TRUE(IsPlainCsvText("Functional.linear.0.forward.input.0"));
  EXPECT_TRUE(IsPlainCsvText("[4096]"));
  EXPECT_FALSE(IsPlainCsvText("[4096, 1]"));
  EXPECT_FALSE(IsPlainCsvText("-1"));
}

}  // namespace
}  // namespace msprobe::base
