// What a Python script states as literals, and what is left to the running program.
#include "src/analysis/config_check/python_script.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace msprobe::analysis::config_check::internal {
namespace {

std::string ScriptLiterals(std::string_view text) { return ReadPythonScript(text).object().dump(); }

TEST(PythonScript, AssignmentsOfLiteralsAtTheTopOfTheFile) {
  EXPECT_EQ(ScriptLiterals(
                "lr = 1e-3\nSTEPS=1_000\nname = 'a b'\nuse: bool = True\nnone = None\nsign = -2\n"),
            R"({"lr":0.001,"STEPS":1000,"name":"a b","use":true,"none":null,"sign":-2})");
  EXPECT_EQ(ScriptLiterals("sizes = [1, 2,\n  3]  # three\npair = (1, 'x')\nkeys = {'a': 1}\n"),
            R"({"sizes":[1,2,3],"pair":[1,"x"],"keys":{"a":1}})");
}

TEST(PythonScript, WhatIsComputedOrIndentedIsLeftOut) {
  EXPECT_EQ(ScriptLiterals(
                "a = f(1)\nb = c\nd == 1\nx.y = 1\nz[0] = 1\ne += 1\nif a:\n    lr = 1\n# g = 1\n"
                "h = 1 if a else 2\ni = '''text\nj = 1\n'''\nk = 'it\\'s'\nl = 1 + 1\n"),
            "{}");
}

TEST(PythonScript, DefaultsOfOptions) {
  EXPECT_EQ(ScriptLiterals(
                "def main():\n    parser.add_argument('-b', '--batch-size', type=int, default=8,\n"
                "        help='a, b (c) default=9')\n"
                "    parser.add_argument(\"--name\", default = 'x')\n"
                "    parser.add_argument('--dir', default=os.path.join('a', 'b'))\n"
                "    parser.add_argument('file', default=1)\n"),
            R"-({"batch-size (default)":8,"name (default)":"x"})-");
}

// Reading the rest of the statement again for each of them would take minutes.
TEST(PythonScript, CallsWithinCallsAreReadOnce) {
  constexpr size_t kDepth = 4'000;
  std::string statement;
  for (size_t i = 0; i < kDepth; ++i) {
    statement += "add_argument(";
  }
  statement += std::string(kDepth, ')') + "\n";
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += statement;
  }
  EXPECT_EQ(ScriptLiterals(text + "p.add_argument('--a', default=1); p.add_argument('--b', "
                                  "default=2)\n"),
            R"-({"a (default)":1,"b (default)":2})-");
}

TEST(PythonScript, BrokenTextEndsWithoutHarm) {
  EXPECT_EQ(ScriptLiterals("a = 1\nb = [1, 2\n"), R"({"a":1})");
  EXPECT_EQ(ScriptLiterals("x = \"open\na = 1\n"), R"({"a":1})");
  EXPECT_EQ(ScriptLiterals("add_argument("), "{}");
  EXPECT_EQ(ScriptLiterals(std::string(100'000, '(') + "\nlr = 1\n"), "{}");
  EXPECT_EQ(ScriptLiterals("\\"), "{}");
  EXPECT_EQ(ScriptLiterals(std::string("a = \"\\")), "{}");
}

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
