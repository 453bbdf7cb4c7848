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

}  // namespace
}  // namespace msprobe::base
