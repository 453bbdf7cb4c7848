#include "src/analysis/kernel_dump/code_mapping.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::TemporaryFolder;

const fs::path kCases = fs::path(MSPROBE_TEST_DATA) / "kernel_dump/code_mapping";

TEST(CodeMapping, RowsOfArraysHaveTheLinesOfTheirScopes) {
  const TemporaryFolder scratch;
  const Result<CodeMapping> mapping =
      MapCode({kCases / "ir.txt", kCases / "dump", scratch / "out"});
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  EXPECT_EQ(mapping->rows, 5U);
  EXPECT_EQ(mapping->mapped, 4U);
  // Rows are in another order: sorted here, in that of the folder there.
  const std::string found = Slurp(mapping->files[0]);
  const std::string dump = fs::absolute(kCases / "dump").lexically_normal().string();
  const std::string expected =
      base::ReplaceAll(Slurp(kCases / "expected/code_mapping.csv"), "<DUMP>", dump);
  EXPECT_EQ(found.size(), expected.size());
  for (const char* name : {"12345.npy", "Default_net_Add-op01", "Mul-op9"}) {
    const size_t at = expected.find(name);
    const std::string row = expected.substr(at, expected.find('/', at + 60) - at);
    EXPECT_NE(found.find(row.substr(0, 60)), std::string::npos) << row;
  }
}

TEST(CodeMapping, TablesGetTwoColumnsHoweverOftenItRuns) {
  const TemporaryFolder scratch;
  const fs::path table = scratch.Write("stat/statistic.csv", Slurp(kCases / "stat/statistic.csv"));
  std::string expected = Slurp(kCases / "expected/statistic.csv");
  // A column of the Python tool's own making.
  expected = base::ReplaceAll(expected, ",Unnamed: 12", "");
  expected = base::ReplaceAll(expected, "1.5,,", "1.5,");
  expected = base::ReplaceAll(expected, "2.5,,", "2.5,");
  for (int run = 0; run < 2; ++run) {
    const Result<CodeMapping> mapping =
        MapCode({kCases / "ir.txt", scratch / "stat", scratch / "out"});
    ASSERT_TRUE(mapping.ok()) << mapping.status().message();
    EXPECT_EQ(Slurp(table), expected);
  }
  // Rows of MindSpore end with a comma, which is no column.
  test_support::Spill(table, "Op Name,Max\nDefault_Sub-op0,1.5,\n");
  ASSERT_TRUE(MapCode({kCases / "ir.txt", scratch / "stat", scratch / "out"}).ok());
  EXPECT_TRUE(
      Slurp(table).starts_with("Op Name,Max,Code Stack,Scope Name\nDefault_Sub-op0,1.5,\"In file"));
}

TEST(CodeMapping, GradientsTakeTheLinesOfTheirForwardNode) {
  const TemporaryFolder scratch;
  const fs::path ir =
      scratch.Write("graph.ir",
                    "  %0(a) = PrimFunc_Sub(%x) cnode_primal_attrs: {unique_id: \"7\"}\n"
                    "      : (<T>) -> (<T>)\n"
                    "      # Fullname with scope: (Default/Sub-op0)\n"
                    "      # In file net.py:1/ x/\n"
                    "  %1(b) = PrimFunc_Mul(%0) cnode_primal_attrs: {forward_unique_id: \"7\"}\n"
                    "      # Fullname with scope: (Gradients/Default/Mul-op1)\n"
                    "  %2(c) = Nothing(%0)\n");
  const Result<IrNodes> nodes = ReadIr(ir);
  ASSERT_TRUE(nodes.ok()) << nodes.status().message();
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ(nodes->at("Gradients_Default_Mul-op1").code_stack, "In file net.py:1/ x");
}

TEST(CodeMapping, AllScopesOfANameAreFoundInTheirOrder) {
  IrNodes nodes;
  nodes["bc"] = {"b/c", "second"};
  nodes["abcd"] = {"a/bcd", "first, longer"};
  nodes["ab"] = {"a/b", "first"};
  nodes["zz"] = {"z/z", "none"};
  const ScopeFinder finder(nodes);
  EXPECT_EQ(finder.Find("xabcdx").scope_name, "a/b\na/bcd\nb/c");
  EXPECT_EQ(finder.Find("xabcdx").code_stack, "first\nfirst, longer\nsecond");
  EXPECT_EQ(finder.Find("aab").scope_name, "a/b");
  EXPECT_EQ(finder.Find("").scope_name, "");
}

TEST(CodeMapping, OfScopesThatOccurEverywhereTheFirstAreFound) {
  IrNodes nodes;
  for (size_t length = 1; length <= 2 * ScopeFinder::kMostScopes; ++length) {
    nodes[std::string(length, 'a')] = {"s", "line"};
  }
  const ScopeFinder finder(nodes);
  const ScopeFinder::Found all = finder.Find(std::string(40, 'a'));
  EXPECT_FALSE(all.cut);
  EXPECT_EQ(all.scope_name.size(), 2 * (40 * 41 / 2) - 1);
  const ScopeFinder::Found first = finder.Find(std::string(1'000'000, 'a'));
  EXPECT_TRUE(first.cut);
  EXPECT_EQ(first.scope_name.size(), 2 * ScopeFinder::kMostScopes - 1);
}

TEST(CodeMapping, RowsWhoseCodeIsManyTimesTheGraphHaveNone) {
  const TemporaryFolder scratch;
  const std::string line(10'000, 'z');
  const fs::path graph = scratch.Write("ir.txt",
                                       "%1(CNode_1) = P(%0) cnode_attrs: {}\n    : (<T>) -> (<T>)\n"
                                       "    # Fullname with scope: (q)\n    # In file net.py:1, " +
                                           line + "\n");
  std::string rows = "Op Type,Op Name\n";
  for (size_t i = 0; i < 1000; ++i) {
    rows += "x,q\n";
  }
  const fs::path table = scratch.Write("stat/statistic.csv", rows);
  const Result<CodeMapping> mapping =
      MapCode({graph, scratch / "stat", scratch / "out"}, /*free_bytes=*/0);
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  EXPECT_EQ(mapping->rows, 1000U);
  EXPECT_EQ(mapping->mapped, 11U);  // 8 times the graph and the table
  ASSERT_EQ(mapping->warnings.size(), 1U);
  EXPECT_NE(mapping->warnings[0].find("989 rows"), std::string::npos) << mapping->warnings[0];
  EXPECT_LT(fs::file_size(table), size_t{150'000});
}

TEST(CodeMapping, ALongLineOfAttributesIsReadOnce) {
  const TemporaryFolder scratch;
  std::string attributes;
  for (size_t i = 0; i < 40'000; ++i) {
    attributes += "unique_id";
  }
  // Blanks at the end were looked at for every key in front of them.
  attributes += std::string(500'000, ' ');
  const fs::path graph =
      scratch.Write("ir.txt", "%1(CNode_1) = P(%0) cnode_attrs: {" + attributes +
                                  "\n    # Fullname with scope: (q)\n    # In file net.py:1, a\n"
                                  "%2(CNode_2) = P(%0) cnode_attrs: {unique_id: \"7\", x: 1}  \n"
                                  "    # scope: (r)\n    # In file net.py:2, b\n"
                                  "%3(CNode_3) = P(%0) cnode_attrs: {forward_unique_id: \"7\" }\n"
                                  "    # scope: (s)\n");
  const Result<IrNodes> nodes = ReadIr(graph);
  ASSERT_TRUE(nodes.ok()) << nodes.status().message();
  EXPECT_EQ(nodes->at("q").code_stack, "In file net.py:1, a");
  EXPECT_EQ(nodes->at("s").code_stack, "In file net.py:2, b");
}

TEST(CodeMapping, InputsThatAreNoneAreRefused) {
  const TemporaryFolder scratch;
  scratch.Write("empty/file.txt", "");
  const fs::path text = scratch.Write("other.txt", "no graph\n");
  EXPECT_EQ(MapCode({kCases / "ir.txt", scratch / "empty", scratch / "o"}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(MapCode({text, kCases / "dump", scratch / "o"}).status().code(),
            StatusCode::kBadFormat);
  const fs::path table = scratch.Write("bad/statistic.csv", "Name\nx\n");
  EXPECT_EQ(MapCode({kCases / "ir.txt", scratch / "bad", scratch / "o"}).status().code(),
            StatusCode::kBadFormat);
  EXPECT_EQ(Slurp(table), "Name\nx\n");
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
