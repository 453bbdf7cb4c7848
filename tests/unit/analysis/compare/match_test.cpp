#include "src/analysis/compare/match.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::SideFromEntries;
using test_support::TensorText;

RowMapping OwnNames(const Side& npu) {
  RowMapping mapping;
  for (const SideRow& row : npu.rows) {
    mapping.keys.push_back(row.name);
  }
  return mapping;
}

// "npu name -> bench name" per pair, "-" for no partner.
std::vector<std::string> PairTexts(const Side& npu, const Side& bench, const MatchResult& result) {
  std::vector<std::string> texts;
  for (const RowPair& pair : result.pairs) {
    texts.push_back(std::string(npu.rows[pair.npu].name) + " -> " +
                    (pair.bench == kNoRow ? "-" : std::string(bench.rows[pair.bench].name)));
  }
  return texts;
}

TEST(MatchExactly, KeepsNpuOrderAndEveryNpuRow) {
  const Side npu =
      SideFromEntries(CallText("Torch.b.0.forward", TensorText(1), TensorText(1)) + "," +
                      CallText("Torch.a.0.forward", TensorText(1), TensorText(1)));
  const Side bench =
      SideFromEntries(CallText("Torch.a.0.forward", TensorText(1), TensorText(1)) + "," +
                      CallText("Torch.c.0.forward", TensorText(1), TensorText(1)));
  const MatchResult result = MatchExactly(npu, bench, OwnNames(npu));
  EXPECT_THAT(
      PairTexts(npu, bench, result),
      ::testing::ElementsAre("Torch.b.0.forward.input.0 -> -", "Torch.b.0.forward.output.0 -> -",
                             "Torch.a.0.forward.input.0 -> Torch.a.0.forward.input.0",
                             "Torch.a.0.forward.output.0 -> Torch.a.0.forward.output.0"));
  EXPECT_EQ(result.bench_only_count, 2u);
}

TEST(MatchExactly, CallsThatAnApiMappingDoesNotKnowStayWhereTheNpuDumpHasThem) {
  const std::string leaf = TensorText(1);
  const auto call = [&](const std::string& name) {
    const std::string backward = name.substr(0, name.rfind('.')) + ".backward";
    return CallText(name, leaf + "," + leaf, leaf) + ",\"" + backward + "\": {\"input\": [" + leaf +
           "], \"output\": [" + leaf + "]}";
  };
  const Side npu = SideFromEntries(
      call("Functional.abs.0.forward") + "," + call("Primitive.Unknown.0.forward") + "," +
          call("Mint.add.0.forward") + "," + call("Functional.abs.1.forward") + "," +
          call("Functional.flash_attention_score.0.forward") + "," +
          call("Cell.a.Other.forward.0") + "," + call("Functional.abs.2.forward"),
      "statistics", "mindspore");
  const Side bench = SideFromEntries(
      call("Torch.abs.2.forward") + "," + call("NPU.npu_fusion_attention.0.forward") + "," +
      call("Torch.add.0.forward") + "," + call("Torch.abs.0.forward") + "," +
      call("Torch.abs.1.forward"));
  const msprobe::test_support::TemporaryFolder folder;
  const std::filesystem::path file =
      folder.Write("api.yaml",
                   "- ms_api: Functional.flash_attention_score\n"
                   "  pt_api: NPU.npu_fusion_attention\n"
                   "  ms_args: [1]\n  pt_args: [0]\n  ms_outputs: [0]\n  pt_outputs: [0]\n");
  for (const std::filesystem::path& mapping_file : {std::filesystem::path(), file}) {
    MatchRules options;
    options.framework = Framework::kMindSpore;
    options.api_mapping = {true, mapping_file};
    const Result<RowMapping> mapping = BuildRowMapping(options, npu, bench);
    ASSERT_TRUE(mapping.ok()) << mapping.status().message();
    const MatchResult result = MatchExactly(npu, bench, *mapping);
    ASSERT_EQ(result.pairs.size(), npu.rows.size());
    uint64_t matched = 0;
    for (uint32_t i = 0; i < result.pairs.size(); ++i) {
      EXPECT_EQ(result.pairs[i].npu, i);
      matched += result.pairs[i].bench == kNoRow ? 0 : 1;
    }
    EXPECT_EQ(matched, mapping_file.empty() ? 20U : 23U);
  }
}

TEST(MatchExactly, TellsAShapeMismatchFromAMissingRow) {
  const Side npu =
      SideFromEntries(CallText("Torch.a.0.forward", TensorText(1, "[2]"), TensorText(1)));
  const Side bench =
      SideFromEntries(CallText("Torch.a.0.forward", TensorText(1, "[3]"), TensorText(1)));
  const MatchResult result = MatchExactly(npu, bench, OwnNames(npu));
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].outcome, MatchOutcome::kShapeDiffers);
  EXPECT_EQ(result.pairs[1].outcome, MatchOutcome::kMatched);
}

TEST(MatchExactly, PairsByKeyAloneUnderADataMapping) {
  const Side npu = SideFromEntries(
      CallText("Torch.a.0.forward", TensorText(1, "[2]", "torch.int64"), TensorText(1)));
  const Side bench =
      SideFromEntries(CallText("Torch.z.9.forward", TensorText(1, "[3]"), TensorText(1)));
  RowMapping mapping;
  mapping.keys = {"Torch.z.9.forward.input.0", "Torch.z.9.forward.input.0"};
  mapping.by_key_only = true;
  const MatchResult result = MatchExactly(npu, bench, mapping);
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].bench, 0u);
  EXPECT_EQ(result.pairs[1].bench, 0u);
}

// `count` rows that all have the name given.
Side RowsOfOneName(size_t count, std::string_view name) {
  Side side;
  side.framework = Framework::kPyTorch;
  side.entries.push_back({name, 0, static_cast<uint32_t>(count)});
  SideRow row;
  row.name = name;
  row.dtype = "torch.float32";
  row.shape = "[2]";
  side.rows.assign(count, row);
  return side;
}

TEST(MatchExactly, PairsEachRowOfANameWithEach) {
  const Side npu = RowsOfOneName(100, "a");
  const Side bench = RowsOfOneName(90, "a");
  const MatchResult result = MatchExactly(npu, bench, OwnNames(npu));
  ASSERT_EQ(result.pairs.size(), 9'000U);
  EXPECT_EQ(result.pairs[91].npu, 1U);
  EXPECT_EQ(result.pairs[91].bench, 1U);
  EXPECT_THAT(result.warnings, ::testing::IsEmpty());
}

// All pairs would be 4e10.
TEST(MatchExactly, PairsInOrderWhereANameRepeatsWithoutEnd) {
  const Side npu = RowsOfOneName(200'000, "a");
  const Side bench = RowsOfOneName(199'999, "a");
  const MatchResult result = MatchExactly(npu, bench, OwnNames(npu));
  ASSERT_EQ(result.pairs.size(), npu.rows.size());
  EXPECT_EQ(result.pairs[100'000].bench, 100'000U);
  EXPECT_EQ(result.pairs[199'998].bench, 199'998U);
  EXPECT_EQ(result.pairs[199'999].bench, kNoRow);
  EXPECT_EQ(result.bench_only_count, 0U);
  EXPECT_THAT(result.warnings, ::testing::ElementsAre(
                                   ::testing::HasSubstr("the first: a (200000 and 199999 rows)")));
}

TEST(PairBudget, CountsLongNamesSeveralTimes) {
  PairBudget budget(0, 0);
  EXPECT_FALSE(budget.Take(200, 200, 100'000));
  EXPECT_TRUE(budget.Take(200, 200, 100));
  EXPECT_FALSE(budget.Take(200, 200, 100));
  EXPECT_TRUE(budget.Take(1'000'000, 1, 100));
}

TEST(DTypesComparable, MixesLowPrecisionFloatsOfOneFrameworkOnly) {
  EXPECT_TRUE(DTypesComparable("torch.bfloat16", "torch.float32", false));
  EXPECT_TRUE(DTypesComparable("Float16", "Float32", false));
  EXPECT_FALSE(DTypesComparable("torch.float64", "torch.float32", false));
  EXPECT_FALSE(DTypesComparable("<class 'int'>", "<class 'float'>", false));
  EXPECT_TRUE(DTypesComparable("None", "None", false));
}

TEST(DTypesComparable, ComparesByClassAcrossFrameworks) {
  EXPECT_TRUE(DTypesComparable("Float32", "torch.float64", true));
  EXPECT_TRUE(DTypesComparable("Int32", "torch.int64", true));
  EXPECT_FALSE(DTypesComparable("Bool", "torch.int64", true));
  EXPECT_TRUE(DTypesComparable("<class 'int'>", "<class 'int'>", true));
}

TEST(MatchFuzzily, PairsAcrossShiftedCallNumbers) {
  const Side npu = SideFromEntries(CallText("Torch.add.1.forward", TensorText(1), TensorText(1)));
  const Side bench = SideFromEntries(CallText("Torch.add.0.forward", TensorText(1), TensorText(1)));
  EXPECT_THAT(
      PairTexts(npu, bench, MatchFuzzily(npu, bench, OwnNames(npu))),
      ::testing::ElementsAre("Torch.add.1.forward.input.0 -> Torch.add.0.forward.input.0",
                             "Torch.add.1.forward.output.0 -> Torch.add.0.forward.output.0"));
}

TEST(MatchFuzzily, LosesNoNpuRowWhenTheBenchEndsEarly) {
  std::string entries;
  for (int i = 0; i < 4; ++i) {
    entries += (i > 0 ? "," : "") + CallText("Torch.add." + std::to_string(i) + ".forward",
                                             TensorText(1), TensorText(1));
  }
  const Side npu = SideFromEntries(entries);
  const Side bench = SideFromEntries(CallText("Torch.add.0.forward", TensorText(1), TensorText(1)));
  EXPECT_EQ(MatchFuzzily(npu, bench, OwnNames(npu)).pairs.size(), npu.rows.size());
}

TEST(MatchFuzzily, LeavesWhatStandsBeforeAHitUnmatched) {
  const Side npu =
      SideFromEntries(CallText("Torch.relu.0.forward", TensorText(1), TensorText(1)) + "," +
                      CallText("Torch.add.0.forward", TensorText(1), TensorText(1)));
  const Side bench = SideFromEntries(CallText("Torch.add.5.forward", TensorText(1), TensorText(1)));
  const std::vector<std::string> pairs =
      PairTexts(npu, bench, MatchFuzzily(npu, bench, OwnNames(npu)));
  EXPECT_THAT(pairs,
              ::testing::Contains("Torch.add.0.forward.input.0 -> Torch.add.5.forward.input.0"));
  EXPECT_EQ(pairs[0], "Torch.relu.0.forward.input.0 -> -");
}

}  // namespace
}  // namespace msprobe::analysis::compare
