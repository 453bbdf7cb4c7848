// The rules of the 26.x command line: cells, verdicts, pairs of rows.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/judging_v26.h"
#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/match.h"
#include "src/analysis/compare/result_table.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::DumpText;
using test_support::TemporaryFolder;
using test_support::TensorText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Side Load(std::string_view entries) {
  const TemporaryFolder folder;
  SideOptions options;
  options.edition = Edition::kV26;
  Result<Side> side = LoadSide(folder.Write("dump.json", DumpText(entries)), options);
  EXPECT_TRUE(side.ok()) << side.status().message();
  return side.ok() ? *std::move(side) : Side();
}

// A leaf with these four statistics as JSON texts.
std::string Leaf(std::string_view max, std::string_view norm, std::string_view shape = "[2]") {
  return "{\"type\": \"torch.Tensor\", \"dtype\": \"torch.float32\", \"shape\": " +
         std::string(shape) + ", \"Max\": " + std::string(max) + ", \"Min\": " + std::string(max) +
         ", \"Mean\": " + std::string(max) + ", \"Norm\": " + std::string(norm) +
         ", \"requires_grad\": false}";
}

RowResult CompareLeaves(std::string_view npu, std::string_view bench) {
  const Side n = Load(CallText("Torch.a.0.forward", npu, npu));
  const Side b = Load(CallText("Torch.a.0.forward", bench, bench));
  RowResult row;
  CompareStatisticsV26(n.rows[0], b.rows[0], row);
  return row;
}

TEST(CompareStatisticsV26, GivesZeroForEqualTextsAndWordsForWhatIsNoNumber) {
  RowResult row = CompareLeaves(Leaf("1.5", "2.0"), Leaf("1.5", "4.0"));
  EXPECT_EQ(row.metrics[kMaxDiff].text(), "0");
  EXPECT_EQ(row.metrics[kNormDiff].number(), -2.0);
  EXPECT_EQ(row.metrics[kNormRel].kind, MetricKind::kPercent);
  EXPECT_EQ(row.metrics[kNormRel].number(), 50.0);
  row = CompareLeaves(Leaf("NaN", "Infinity"), Leaf("1.0", "1.0"));
  EXPECT_EQ(row.metrics[kMaxDiff].text(), "Nan");
  EXPECT_EQ(row.metrics[kNormRel].text(), "inf");
  row = CompareLeaves(Leaf("null", "1.0"), Leaf("1.0", "-Infinity"));
  EXPECT_EQ(row.metrics[kMaxDiff].text(), "Diff");
  EXPECT_EQ(row.metrics[kNormDiff].text(), "inf");
  row = CompareLeaves(Leaf("1", "2.0"), Leaf("1.0", "0.0"));
  EXPECT_EQ(row.metrics[kMaxDiff].number(), 0.0);
  EXPECT_EQ(row.metrics[kMaxDiff].kind, MetricKind::kNumber);
  EXPECT_EQ(row.metrics[kNormRel].text(), "inf");
}

// Everything between loading and the table, for statistics.
struct Judged {
  Side npu;
  Side bench;
  PairResult result;

  std::string Word(size_t row) const { return std::string(ResultWord(result.rows[row].verdict)); }
};

Judged JudgeEntries(std::string_view npu, std::string_view bench, JudgeRules rules = {}) {
  Judged judged{Load(npu), Load(bench), {}};
  Result<RowMapping> mapping =
      BuildRowMappingV26(MatchRules(), /*strict=*/false, judged.npu, judged.bench);
  EXPECT_TRUE(mapping.ok()) << mapping.status().message();
  const MatchResult matches = MatchExactly(judged.npu, judged.bench, *mapping);
  judged.result.edition = Edition::kV26;
  judged.result.mode = judged.npu.has_md5 ? CompareMode::kMd5 : CompareMode::kStatistics;
  for (const RowPair& pair : matches.pairs) {
    RowResult row;
    row.pair = pair;
    if (pair.bench == kNoRow) {
      row.metrics.fill(Metric::Text("N/A"));
      row.message = "No bench row matches. ";
    } else if (judged.result.mode == CompareMode::kStatistics) {
      CompareStatisticsV26(judged.npu.rows[pair.npu], judged.bench.rows[pair.bench], row);
    }
    judged.result.rows.push_back(row);
  }
  JudgeCalls(judged.npu, judged.bench, rules, judged.result);
  return judged;
}

TEST(JudgeCalls, BlamesAnOutputThatIsFarOffWhileTheInputsAreNear) {
  const Judged judged =
      JudgeEntries(CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.6")),
                   CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0")));
  EXPECT_EQ(judged.Word(0), "pass");
  EXPECT_EQ(judged.result.rows[0].message, "[]");
  EXPECT_EQ(judged.Word(1), "error");
  EXPECT_THAT(judged.result.rows[1].message,
              ::testing::AllOf(HasSubstr("error: The NormRelativeErr of output"),
                               HasSubstr("warning: The norm relative error of output")));
  EXPECT_EQ(judged.result.rows[1].fill, report::Fill::kRed);
}

TEST(JudgeCalls, LimitsAreStrict) {
  const Judged at_limit =
      JudgeEntries(CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.5")),
                   CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0")));
  EXPECT_EQ(at_limit.Word(1), "warning");
  const Judged input_off =
      JudgeEntries(CallText("Torch.a.0.forward", Leaf("1.0", "1.2"), Leaf("1.0", "1.9")),
                   CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0")));
  EXPECT_EQ(input_off.Word(1), "pass");
}

TEST(JudgeCalls, SeesNanShapeDtypeAndScalars) {
  const std::string scalar = R"({"type": "int", "value": 3})";
  const std::string other_scalar = R"({"type": "int", "value": 4})";
  const std::string half =
      R"({"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0, "requires_grad": true})";
  const Judged judged =
      JudgeEntries(CallText("Torch.a.0.forward", Leaf("NaN", "1.0") + "," + scalar + "," + half,
                            Leaf("1.0", "1.0", "[1, 2]")),
                   CallText("Torch.a.0.forward",
                            Leaf("1.0", "1.0") + "," + other_scalar + "," + Leaf("1.0", "1.0"),
                            Leaf("1.0", "1.0")));
  EXPECT_THAT(judged.result.rows[0].message, HasSubstr("nan/inf/-inf"));
  EXPECT_THAT(judged.result.rows[1].message, HasSubstr("scalar parameters"));
  EXPECT_THAT(judged.result.rows[2].message,
              ::testing::AllOf(HasSubstr("Required_Grad"), HasSubstr("dtype")));
  EXPECT_THAT(judged.result.rows[3].message, HasSubstr("shape"));
}

TEST(JudgeCalls, LeavesCopiesUnjudgedAndFillsBuffersWithoutLookingAtThem) {
  const std::string near =
      CallText("Torch.empty.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "9.0"));
  const std::string far = CallText("Torch.empty.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0"));
  EXPECT_EQ(JudgeEntries(near, far).Word(1), "pass");
  const std::string name = "Distributed._all_gather_base.0.forward";
  const Judged gather = JudgeEntries(CallText(name, Leaf("NaN", "1.0"), Leaf("NaN", "9.0")),
                                     CallText(name, Leaf("1.0", "1.0"), Leaf("1.0", "1.0")));
  EXPECT_EQ(gather.Word(0), "pass");
  EXPECT_EQ(gather.Word(1), "error");
  // A call without inputs is never taken for one of them.
  const std::string only_output = R"("Torch.empty.0.forward": {"output": [)";
  EXPECT_EQ(
      JudgeEntries(only_output + Leaf("1.0", "9.0") + "]}", only_output + Leaf("1.0", "1.0") + "]}")
          .Word(0),
      "error");
}

TEST(JudgeCalls, PassesRowsWithoutPartnerUnlessStrict) {
  const std::string npu = CallText("Torch.a.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0"));
  const std::string bench = CallText("Torch.b.0.forward", Leaf("1.0", "1.0"), Leaf("1.0", "1.0"));
  const Judged judged = JudgeEntries(npu, bench);
  EXPECT_EQ(judged.Word(0), "pass");
  EXPECT_EQ(judged.result.rows[0].message, R"(["note: No bench row matches."])");
  EXPECT_EQ(JudgeEntries(npu, bench, {.strict = true}).Word(0), "warning");
}

TEST(JudgeCalls, ComparesChecksums) {
  const auto leaf = [](std::string_view md5) {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0, "requires_grad": false, "md5": ")" +
           std::string(md5) + "\"}";
  };
  const Judged judged =
      JudgeEntries(CallText("Torch.a.0.forward", leaf("aaaa"), leaf("bbbb")) + "," +
                       CallText("Torch.c.0.forward", leaf("aaaa"), leaf("bbbb")),
                   CallText("Torch.a.0.forward", leaf("aaaa"), leaf("cccc")));
  EXPECT_EQ(judged.Word(0), "pass");
  EXPECT_EQ(judged.Word(1), "error");
  EXPECT_EQ(judged.Word(2), "warning");
}

TEST(MakeResultTableV26, HasItsColumnsAndSpellsValues) {
  const Judged judged = JudgeEntries(
      CallText("Torch.a.0.forward", Leaf("Infinity", "2"), R"({"type": "int", "value": 3})"),
      CallText("Torch.a.0.forward", Leaf("Infinity", "2"), R"({"type": "int", "value": 3})"));
  const report::Table table =
      MakeResultTable(judged.npu, judged.bench, judged.result, nullptr, nullptr);
  EXPECT_THAT(ResultColumns(CompareMode::kMd5, true, Edition::kV26),
              ElementsAre("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape",
                          "Bench Tensor Shape", "NPU Requires_grad", "Bench Requires_grad",
                          "NPU MD5", "BENCH MD5", "Requires_grad Consistent", "Result",
                          "Err_message", "NPU_Stack_Info"));
  const auto cell = [&](size_t row, std::string_view column) {
    for (size_t i = 0; i < table.columns().size(); ++i) {
      if (table.columns()[i] == column) {
        return report::CellText(table.row(row)[i]);
      }
    }
    return std::string("no such column");
  };
  EXPECT_EQ(cell(0, "NPU max"), " inf");
  EXPECT_EQ(cell(0, "Max diff"), "0");
  EXPECT_EQ(cell(0, "NPU Requires_grad"), "False");
  EXPECT_EQ(cell(1, "NPU Requires_grad"), "N/A");
  EXPECT_EQ(cell(1, "Requires_grad Consistent"), "True");
  EXPECT_EQ(cell(1, "Result"), "pass");
}

TEST(LoadSideV26, ReadsPlacesAsTextsAndPointToPointCallsAsOneRow) {
  const Side side = Load(
      R"("Distributed.batch_isend_irecv.0.forward": {"input_args": [[{"class_type": "torch.distributed.P2POp", "op": "isend", "peer": 1, "tag": 0, "group_id": "x", "tensor": )" +
      TensorText(1) +
      R"(}]], "input_kwargs": {"dst": {"type": "int", "value": 1}}, "output": []})");
  ASSERT_EQ(side.rows.size(), 2u);
  EXPECT_EQ(side.rows[0].name, "Distributed.batch_isend_irecv.0.forward.input.0.0");
  ASSERT_EQ(side.rows[0].point_to_point, 1u);
  EXPECT_EQ(side.point_to_point[0].operation, "isend");
  EXPECT_EQ(side.point_to_point[0].peer, "1");
  EXPECT_EQ(side.rows[1].stats[kMax].kind, StatKind::kText);
  EXPECT_EQ(side.rows[1].stats[kMax].text(), "1");
  EXPECT_EQ(side.rows[1].md5, "1");
}

std::vector<std::string> PairsOf(std::string_view npu_entries, std::string_view bench_entries,
                                 const MatchRules& rules, bool strict = false) {
  const Side npu = Load(npu_entries);
  const Side bench = Load(bench_entries);
  std::vector<std::string> pairs;
  const Result<RowMapping> mapping = BuildRowMappingV26(rules, strict, npu, bench);
  EXPECT_TRUE(mapping.ok()) << mapping.status().message();
  if (mapping.ok()) {
    for (const RowPair& pair : MatchExactly(npu, bench, *mapping).pairs) {
      pairs.push_back(std::string(npu.rows[pair.npu].name) + " -> " +
                      (pair.bench == kNoRow ? "-" : std::string(bench.rows[pair.bench].name)));
    }
  }
  return pairs;
}

std::string Backward(std::string_view name) {
  return "\"" + std::string(name) + "\": {\"input\": [" + TensorText(1) + "], \"output\": []}";
}

TEST(BuildRowMappingV26, PairsBackwardCallsByTheOrderInWhichTheyRan) {
  MatchRules options;
  const std::string npu = Backward("Torch.mul.1.backward") + "," +
                          Backward("Torch.mul.0.backward") + "," +
                          Backward("Module.l.Linear.backward.5");
  const std::string bench = Backward("Torch.mul.3.backward") + "," +
                            Backward("Torch.mul.2.backward") + "," +
                            Backward("Module.l.Linear.backward.0");
  EXPECT_THAT(
      PairsOf(npu, bench, options),
      ElementsAre("Torch.mul.1.backward.input.0 -> Torch.mul.3.backward.input.0",
                  "Torch.mul.0.backward.input.0 -> Torch.mul.2.backward.input.0",
                  "Module.l.Linear.backward.5.input.0 -> Module.l.Linear.backward.0.input.0"));
}

TEST(BuildRowMappingV26, KeepsFittingBackwardNumbersWhenStrict) {
  MatchRules options;
  const std::string npu = Backward("Torch.mul.1.backward") + "," + Backward("Torch.mul.0.backward");
  const std::string bench =
      Backward("Torch.mul.0.backward") + "," + Backward("Torch.mul.1.backward");
  EXPECT_THAT(PairsOf(npu, bench, options),
              ElementsAre("Torch.mul.1.backward.input.0 -> Torch.mul.0.backward.input.0",
                          "Torch.mul.0.backward.input.0 -> Torch.mul.1.backward.input.0"));
  EXPECT_THAT(PairsOf(npu, bench, options, /*strict=*/true),
              ElementsAre("Torch.mul.1.backward.input.0 -> Torch.mul.1.backward.input.0",
                          "Torch.mul.0.backward.input.0 -> Torch.mul.0.backward.input.0"));
}

TEST(BuildRowMappingV26, PairsNumberedGradientsWithOlderOnesWhenStrict) {
  MatchRules options;
  const std::string npu =
      R"("Module.l.Linear.parameters_grad.0": {"weight": [)" + TensorText(1) + "]}";
  const std::string bench =
      R"("Module.l.Linear.parameters_grad": {"weight": [)" + TensorText(1) + "]}";
  EXPECT_THAT(PairsOf(npu, bench, options),
              ElementsAre("Module.l.Linear.parameters_grad.0.weight -> -"));
  EXPECT_THAT(PairsOf(npu, bench, options, /*strict=*/true),
              ElementsAre("Module.l.Linear.parameters_grad.0.weight -> "
                          "Module.l.Linear.parameters_grad.weight"));
}

TEST(BuildRowMappingV26, TranslatesModulesByFragmentsInTheOrderOfTheFile) {
  const TemporaryFolder folder;
  MatchRules options;
  options.cell_mapping = {true,
                          folder.Write("cells.yaml", "fc1.Linear: dense.MyLinear\nblock: blk\n")};
  const auto call = [](const char* name) { return CallText(name, TensorText(1), ""); };
  EXPECT_THAT(
      PairsOf(
          call("Module.fc1.Linear.forward.0") + "," + call("Module.block.fc2.Linear.forward.0"),
          call("Module.dense.MyLinear.forward.0") + "," + call("Module.blk.fc2.Linear.forward.0"),
          options),
      ElementsAre("Module.fc1.Linear.forward.0.input.0 -> Module.dense.MyLinear.forward.0.input.0",
                  "Module.block.fc2.Linear.forward.0.input.0 -> "
                  "Module.blk.fc2.Linear.forward.0.input.0"));
}

// Every module of a dump would get a name as long as the file.
TEST(BuildRowMappingV26, RefusesReplacementsThatMakeNamesWithoutEnd) {
  const TemporaryFolder folder;
  const Side side = Load(CallText("Module.abc.Linear.forward.0", TensorText(1), ""));
  MatchRules options;
  const std::string half(3000, 'x');
  options.cell_mapping = {true, folder.Write("a.yaml", "a: " + half + "\nz: y\n")};
  EXPECT_TRUE(BuildRowMappingV26(options, /*strict=*/false, side, side).ok());
  options.cell_mapping = {true, folder.Write("b.yaml", "a: " + half + "\nb: " + half + "\n")};
  const Result<RowMapping> mapping = BuildRowMappingV26(options, /*strict=*/false, side, side);
  ASSERT_FALSE(mapping.ok());
  EXPECT_EQ(mapping.status().code(), StatusCode::kUsage);
  EXPECT_THAT(mapping.status().message(), ::testing::HasSubstr("4096 bytes of the module abc."));
}

TEST(BuildRowMappingV26, RefusesAnApiMappingOfPyTorch) {
  const Side side = Load(CallText("Torch.a.0.forward", TensorText(1), TensorText(1)));
  MatchRules options;
  options.api_mapping.given = true;
  EXPECT_EQ(BuildRowMappingV26(options, /*strict=*/false, side, side).status().code(),
            StatusCode::kUsage);
}

}  // namespace
}  // namespace msprobe::analysis::compare
