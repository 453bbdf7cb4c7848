// Operators of a compiled model beside the operators that they were fused from.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/base/files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

// Messages of less than 128 bytes each.
std::string ByteField(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}
std::string TextField(int field, const std::string& text) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(text.size())} + text;
}

// Two float32 numbers.
std::string PairTensor(int field, int size_field, const std::string& origin = "", int output = 0) {
  std::string message = ByteField(1, 1) + ByteField(2, 2) + TextField(3, TextField(1, "\x02"));
  if (!origin.empty()) {
    message += TextField(4, TextField(1, origin) + ByteField(2, output));
  }
  return TextField(field, message + ByteField(size_field, 8));
}
std::string PairInput() { return PairTensor(4, 5); }
std::string PairOutput(const std::string& origin = "", int output = 0) {
  return PairTensor(3, 6, origin, output);
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void WriteDump(const fs::path& path, const std::string& header, const std::vector<float>& values) {
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(base::WriteFileAtomically(path, length + header + BytesOf(values)).ok());
}

void WriteArray(const fs::path& path, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  header += '\n';
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(base::WriteFileAtomically(
                  path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + BytesOf(values))
                  .ok());
}

constexpr const char* kGraph = R"({"graph": [{"op": [
  {"name": "data", "output_desc": [{}]},
  {"name": "net/conv1net/relu1", "input": ["data:0", "data:-1"],
   "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["net/conv1", "net/relu1"]}}}],
   "output_desc": [{"attr": [{"key": "_datadump_origin_name", "value": {"s": "net/relu1"}},
                             {"key": "_datadump_origin_output_index", "value": {"i": 0}}]},
                   {"attr": [{"key": "_datadump_origin_name", "value": {"s": "net/conv1"}},
                             {"key": "_datadump_origin_output_index", "value": {"i": "1"}}]}]},
  {"name": "pool", "input": ["net/conv1net/relu1:1"],
   "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["pool", "cast"]}}}]}]}]})";

VectorFindings CompareFused(const VectorOptions& options) {
  Result<VectorFindings> findings = CompareVectors(options);
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  return findings.ok() ? *std::move(findings) : VectorFindings();
}

// "tensor > operator of the reference, largest error" of each row.
std::vector<std::string> Lines(const VectorFindings& findings) {
  std::vector<std::string> lines;
  for (const VectorRow& row : findings.rows) {
    lines.push_back((row.tensor.empty() ? row.mine.op_name : row.tensor) + " > " +
                    row.golden.op_name + ", " +
                    (row.measures ? MeasureText(*row.measures, Measure::kMaxAbsolute) : "none"));
  }
  return lines;
}

TEST(FusedOperators, AreHeldAgainstTheOriginThatTheirFileTells) {
  const TemporaryFolder scratch;
  WriteDump(scratch / "mine/Conv2D.net_conv1net_relu1.1.1.1700000000000001",
            PairInput() + PairOutput("net/relu1"), {1, 2, 3, 4});
  WriteArray(scratch / "golden/net_conv1.0.1700000000000001.npy", {9, 9});
  WriteArray(scratch / "golden/net_relu1.0.1700000000000002.npy", {3, 4.5});
  const VectorFindings findings = CompareFused(
      {.mine = scratch / "mine", .golden = scratch / "golden", .output = scratch / "out"});
  EXPECT_THAT(Lines(findings),
              ::testing::ElementsAre("net_conv1net_relu1:output:0 > net_relu1, 0.500000",
                                     "* > net_conv1, none"));
  EXPECT_EQ(findings.operators, 1U);
}

TEST(FusedOperators, OfTwoCompiledModelsPairByName) {
  const TemporaryFolder scratch;
  for (const char* side : {"mine", "golden"}) {
    WriteDump(scratch / side / "Conv2D.fused.1.1.1700000000000001", PairOutput("relu"), {1, 2});
    WriteDump(scratch / side / "Relu.relu.2.1.1700000000000002", PairOutput(), {7, 7});
  }
  const VectorFindings findings = CompareFused(
      {.mine = scratch / "mine", .golden = scratch / "golden", .output = scratch / "out"});
  EXPECT_THAT(Lines(findings), ::testing::ElementsAre("fused:output:0 > fused, 0.000000",
                                                      "relu:output:0 > relu, 0.000000"));
}

TEST(FusedOperators, RulesTellTheOriginsOfInputsAndOutputs) {
  const TemporaryFolder scratch;
  ASSERT_TRUE(base::WriteFileAtomically(scratch / "graph.json", kGraph).ok());
  WriteDump(scratch / "mine/Conv2D.net_conv1net_relu1.1.1.1700000000000001",
            PairInput() + PairOutput() + PairOutput(), {1, 2, 3, 4, 5, 6});
  WriteDump(scratch / "mine/Pooling.pool.2.1.1700000000000002", PairInput() + PairOutput(),
            {5, 6, 8, 8});
  WriteArray(scratch / "golden/data.0.1700000000000001.npy", {1, 2});
  WriteArray(scratch / "golden/net_relu1.0.1700000000000002.npy", {3, 4});
  WriteArray(scratch / "golden/net_conv1.1.1700000000000003.npy", {5, 7});
  WriteArray(scratch / "golden/cast.0.1700000000000004.npy", {8, 8});
  const VectorFindings findings =
      CompareFused({.mine = scratch / "mine",
                    .golden = scratch / "golden",
                    .output = scratch / "out",
                    .fusion_rules = {.network = scratch / "graph.json"}});
  EXPECT_THAT(Lines(findings),
              ::testing::ElementsAre("net_conv1net_relu1:input:0 > data, 0.000000",
                                     "net_conv1net_relu1:output:0 > net_relu1, 0.000000",
                                     "net_conv1net_relu1:output:1 > net_conv1, 1.000000",
                                     "pool:input:0 > net_conv1, 1.000000",
                                     "pool:output:0 > cast, 0.000000"));
  EXPECT_EQ(findings.failed(), 0U);
}

TEST(FusedOperators, RulesOfTheReferenceTellWhereTheOriginIsInIt) {
  const TemporaryFolder scratch;
  ASSERT_TRUE(base::WriteFileAtomically(scratch / "graph.json", kGraph).ok());
  WriteDump(scratch / "mine/Relu.alone.1.1.1700000000000001", PairOutput("net/conv1", 1), {5, 6});
  WriteDump(scratch / "golden/Conv2D.net_conv1net_relu1.1.1.1700000000000001",
            PairOutput() + PairOutput(), {3, 4, 5, 6});
  const VectorFindings findings =
      CompareFused({.mine = scratch / "mine",
                    .golden = scratch / "golden",
                    .output = scratch / "out",
                    .fusion_rules = {.reference = scratch / "graph.json"}});
  EXPECT_THAT(Lines(findings),
              ::testing::ElementsAre("alone:output:0 > net_conv1net_relu1, 0.000000"));
}

TEST(FusionRules, OutputsThatAreNotToldOneByOneAreFoundFromTheirOrigin) {
  const TemporaryFolder scratch;
  // "ahead" comes first by name, but the file itself tells that "told" is what became of "relu".
  ASSERT_TRUE(base::WriteFileAtomically(scratch / "graph.json", R"({"op": [
    {"name": "ahead", "output_desc": [{}, {}],
     "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["conv", "relu"]}}}]},
    {"name": "told",
     "output_desc": [{"attr": [{"key": "_datadump_origin_name", "value": {"s": "relu"}}]}]}]})")
                  .ok());
  const Result<FusionRules> rules = FusionRules::Read(scratch / "graph.json");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  EXPECT_EQ(rules->Origin("ahead", 1), OutputPlace({"relu", 1}));
  EXPECT_EQ(rules->ByOrigin(), (std::map<OutputPlace, OutputPlace>{{{"relu", 0}, {"told", 0}},
                                                                   {{"relu", 1}, {"ahead", 1}}}));
}

TEST(FusionRules, WhatIsNoGraphIsRefusedWithItsPath) {
  const TemporaryFolder scratch;
  const auto message = [&](const std::string& text) {
    EXPECT_TRUE(
        base::WriteFileAtomically(scratch / "graph.json", text, base::Existing::kReplace).ok());
    const Result<FusionRules> rules = FusionRules::Read(scratch / "graph.json");
    return rules.ok() ? std::string("read") : rules.status().message();
  };
  EXPECT_THAT(message(R"({"graph": [{"op": [{"name": "a")"), HasSubstr("graph.json"));
  EXPECT_THAT(message(R"({"graph": []})"), HasSubstr("names no operators"));
  EXPECT_THAT(message(R"({"op": [3, {"name": 4}, [{"name": "deep"}]]})"),
              HasSubstr("names no operators"));
  EXPECT_EQ(message(R"({"x": [{"name": "no"}], "deep": {"op": [{"name": "yes"}]}})"), "read");
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
