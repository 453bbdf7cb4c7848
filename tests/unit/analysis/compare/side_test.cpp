#include "src/analysis/compare/side.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::DumpText;
using test_support::SideFromEntries;
using test_support::TensorText;
using ::testing::ElementsAre;

std::vector<std::string> Names(const Side& side) {
  std::vector<std::string> names;
  for (const SideRow& row : side.rows) {
    names.emplace_back(row.name);
  }
  return names;
}

TEST(LoadSide, NumbersNestedArgumentsAndNamesKeywordArguments) {
  const Side side = SideFromEntries(
      R"("Torch.f.0.forward": {"input_args": [)" + TensorText(1) +
      R"(, [{"type": "int", "value": 3}, [)" + TensorText(2) +
      R"(]]], "input_kwargs": {"dim": {"type": "int", "value": -1}}, "is_recompute": false, "output": [)" +
      TensorText(4) + R"(]})");
  EXPECT_THAT(Names(side),
              ElementsAre("Torch.f.0.forward.input.0", "Torch.f.0.forward.input.1.0",
                          "Torch.f.0.forward.input.1.1.0", "Torch.f.0.forward.input.dim",
                          "Torch.f.0.forward.output.0"));
}

TEST(LoadSide, PutsParametersBetweenInputsAndOutputs) {
  const Side side = SideFromEntries(R"("Module.fc.Linear.forward.0": {"input_args": [)" +
                                    TensorText(1) + R"(], "input_kwargs": {}, "output": [)" +
                                    TensorText(2) + R"(], "parameters": {"weight": )" +
                                    TensorText(3) + R"(}, "is_recompute": false})");
  EXPECT_THAT(Names(side), ElementsAre("Module.fc.Linear.forward.0.input.0",
                                       "Module.fc.Linear.forward.0.parameters.weight",
                                       "Module.fc.Linear.forward.0.output.0"));
}

TEST(LoadSide, DropsTheListIndexBelowParametersGrad) {
  const Side side = SideFromEntries(R"("Module.fc.Linear.parameters_grad": {"weight": [)" +
                                    TensorText(1) + R"(], "bias": [null]})");
  ASSERT_THAT(Names(side), ElementsAre("Module.fc.Linear.parameters_grad.weight",
                                       "Module.fc.Linear.parameters_grad.bias"));
  EXPECT_EQ(side.rows[0].state, dump::RowState::kParametersGrad);
  EXPECT_EQ(side.rows[1].dtype, "None");
  EXPECT_EQ(side.rows[1].md5, "N/A");
}

TEST(LoadSide, NamesARowAfterItsTensorFile) {
  const Side side = SideFromEntries(
      R"("Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1],
          "data_name": "Torch.g.7.forward.output.0.pt"}]})",
      "tensor");
  ASSERT_EQ(side.rows.size(), 1u);
  EXPECT_EQ(side.rows[0].name, "Torch.g.7.forward.output.0");
  EXPECT_EQ(side.rows[0].data_name, "Torch.g.7.forward.output.0.pt");
}

TEST(LoadSide, ShowsScalarsByTheirPythonClassAndChecksum) {
  const Side side = SideFromEntries(
      R"("Torch.f.0.forward": {"input_args": [{"type": "int", "value": 1}, {"type": "float", "value": 1.0},
          {"type": "bool", "value": true}, {"type": "torch.Size", "value": [2, 3]},
          {"type": "slice", "value": [0, 1, null]}, {"type": "torch.dtype", "value": "torch.float32"}]})");
  ASSERT_EQ(side.rows.size(), 6u);
  EXPECT_EQ(side.rows[0].dtype, "<class 'int'>");
  EXPECT_EQ(side.rows[0].md5, "83dcefb7");  // crc32 of "1"
  EXPECT_EQ(side.rows[1].dtype, "<class 'float'>");
  EXPECT_EQ(side.rows[2].stats[kMax].kind, StatKind::kBool);
  EXPECT_EQ(side.rows[3].dtype, "torch.Size");
  EXPECT_EQ(side.rows[3].shape, "[2, 3]");
  EXPECT_EQ(side.rows[4].shape, "(3,)");
  EXPECT_EQ(side.rows[5].dtype, "<class 'str'>");
}

TEST(LoadSide, MarksWhatIsNestedTooDeepAndGoesOn) {
  std::string deep = TensorText(1);
  for (int i = 0; i < 14; ++i) {
    deep = "[" + deep + "]";
  }
  const Side side = SideFromEntries(CallText("Torch.f.0.forward", deep, TensorText(2)));
  ASSERT_EQ(side.rows.size(), 2u);
  EXPECT_FALSE(side.rows[0].problem.empty());
  EXPECT_TRUE(side.rows[1].problem.empty());
}

TEST(LoadSide, MarksNamesWithTwoDirections) {
  const Side side =
      SideFromEntries(CallText("Module.forward.a.Linear.forward.0", TensorText(1), TensorText(1)));
  ASSERT_EQ(side.rows.size(), 2u);
  // Only "no, or more than one, forward/backward part" is unknown; this name has two.
  EXPECT_FALSE(side.rows[0].problem.empty());
}

TEST(LoadSide, SkipsEmptyContainersAndBareScalars) {
  const Side side = SideFromEntries(
      R"("Torch.f.0.forward": {"input_args": [[], {}, 3, "text", false], "output": [null]})");
  EXPECT_THAT(Names(side), ElementsAre("Torch.f.0.forward.output.0"));
}

TEST(LoadSide, WarnsAboutTextsThatLookLikeFormulas) {
  const Side side =
      SideFromEntries(R"("Torch.f.0.forward": {"input_args": [{"type": "str", "value": "=1+1"}]})");
  ASSERT_EQ(side.warnings.size(), 1u);
  EXPECT_EQ(side.rows.size(), 1u);
}

TEST(LoadSide, SeesChecksumsTwoLevelsDeep) {
  EXPECT_TRUE(
      SideFromEntries(
          R"("Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32",
      "shape": [1], "md5": "00000000"}]})")
          .has_md5);
  EXPECT_FALSE(
      SideFromEntries(
          R"("Torch.f.0.forward": {"output": [[{"type": "torch.Tensor", "dtype": "torch.float32",
      "shape": [1], "md5": "00000000"}]]})")
          .has_md5);
}

TEST(LoadSide, ReadsTheNoiseFloorOfOutputs) {
  const Side side = SideFromEntries(
      R"("Torch.f.0.forward": {"input_args": [)" + TensorText(1) + R"(], "output": [)" +
      TensorText(2) + ", " + TensorText(3) +
      R"(], "noise_floor": {"repeats": 5, "output": {"1": {"digits": 3.5, "noise": 0.001}}}})");
  ASSERT_EQ(side.rows.size(), 3U);
  EXPECT_LT(side.rows[0].noise_floor, 0);
  EXPECT_LT(side.rows[1].noise_floor, 0);
  EXPECT_FLOAT_EQ(side.rows[2].noise_floor, 0.001F);
  EXPECT_FLOAT_EQ(side.rows[2].digits, 3.5F);
}

// A search among the outputs for each of them would be 10^10 steps.
TEST(LoadSide, ReadsTheNoiseFloorOfManyOutputs) {
  constexpr size_t kOutputs = 100'000;
  std::string outputs;
  std::string floor;
  for (size_t i = 0; i < kOutputs; ++i) {
    outputs += i == 0 ? "" : ",";
    outputs += R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": []})";
    floor += i == 0 ? "" : ",";
    floor += "\"" + std::to_string(i) + R"(": {"noise": 0.5})";
  }
  const Side side = SideFromEntries(R"("Torch.f.0.forward": {"output": [)" + outputs +
                                    R"(], "noise_floor": {"output": {)" + floor + "}}}");
  ASSERT_EQ(side.rows.size(), kOutputs);
  EXPECT_FLOAT_EQ(side.rows.back().noise_floor, 0.5F);
}

// 100,000 names of 100,000 letters would be 10 GB.
TEST(LoadSide, RefusesNamesOfRowsThatTheFileDoesNotAccountFor) {
  const auto text = [](size_t key_bytes, size_t nulls) {
    std::string list = "null";
    for (size_t i = 1; i < nulls; ++i) {
      list += ",null";
    }
    return DumpText(R"("Torch.f.0.forward": {"output": {")" + std::string(key_bytes, 'k') +
                    "\": [" + list + "]}}");
  };
  const test_support::TemporaryFolder folder;
  const Result<Side> side = LoadSide(folder.Write("dump.json", text(100'000, 100'000)));
  ASSERT_FALSE(side.ok());
  EXPECT_EQ(side.status().code(), StatusCode::kBadFormat);
  EXPECT_THAT(side.status().message(),
              ::testing::HasSubstr("dump.json: Torch.f.0.forward: the names of rows"));
  const Result<Side> real = LoadSide(folder.Write("real.json", text(300, 100'000)));
  ASSERT_TRUE(real.ok()) << real.status().message();
  EXPECT_EQ(real->rows.size(), 100'000U);
}

TEST(LoadSide, TakesNoNonsenseForANoiseFloor) {
  for (const char* floor :
       {"5", "[]", R"({"output": 3})", R"({"output": {"0": 1}})",
        R"({"output": {"0": {"noise": "a"}}})", R"({"output": {"0": {"noise": -1}}})",
        R"({"output": {"0": {"noise": NaN}}})", R"({"output": {"0": {"digits": 3}}})"}) {
    const Side side = SideFromEntries(R"("Torch.f.0.forward": {"output": [)" + TensorText(2) +
                                      R"(], "noise_floor": )" + floor + "}");
    ASSERT_EQ(side.rows.size(), 1U) << floor;
    EXPECT_LT(side.rows[0].noise_floor, 0) << floor;
  }
}

TEST(StatValue, KeepsEveryDigitOfAnInteger) {
  for (const int64_t base :
       {int64_t{0}, int64_t{1} << 53U, (int64_t{1} << 53U) + 1, (int64_t{1} << 62U) + 511,
        int64_t{-9007199254740993}, INT64_MAX - 600, INT64_MIN + 600}) {
    for (int64_t more = -600; more <= 600; ++more) {
      StatValue value;
      value.SetInteger(base + more);
      EXPECT_EQ(value.integer(), base + more);
      EXPECT_EQ(value.number, static_cast<double>(base + more));
      EXPECT_TRUE(value.is_numeric());
    }
  }
}

TEST(StatValue, HoldsATextWithoutANumber) {
  StatValue value;
  EXPECT_EQ(value.text(), "");
  value.SetText("nan");
  EXPECT_EQ(value.text(), "nan");
  EXPECT_FALSE(value.is_numeric());
}

// Shapes that differ in their number of axes, in one axis, or are no lists of numbers.
TEST(LoadSide, TellsShapesApartHoweverManyThereAre) {
  // As a dump writes them, and as Python prints them where that differs.
  const std::vector<std::pair<std::string, std::string>> shapes = {{"[]", ""},
                                                                   {"[0]", ""},
                                                                   {"[1, 1]", ""},
                                                                   {"[1]", ""},
                                                                   {"[2, 3]", ""},
                                                                   {"[3, 2]", ""},
                                                                   {"[1, 2, 3, 4, 5, 6]", ""},
                                                                   {"[1, 2, 3, 4, 5, 6, 7]", ""},
                                                                   {"[-1]", ""},
                                                                   {"[[1], 2]", ""},
                                                                   {"[1.5]", ""},
                                                                   {"[true, null]", "[True, None]"},
                                                                   {"[\"s\", 4]", "['s', 4]"}};
  std::string outputs;
  std::vector<std::string> expected;
  for (int round = 0; round < 200; ++round) {
    const auto& [written, printed] =
        shapes[static_cast<size_t>(round * round + round / 3) % shapes.size()];
    outputs += (round > 0 ? ", " : "") +
               (R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": )" + written +
                R"(, "Max": 1, "Min": 1, "Mean": 1, "Norm": 1})");
    expected.push_back(printed.empty() ? written : printed);
    if (round % 4 == 0) {
      outputs +=
          fmt::format(R"(, {{"type": "torch.Tensor", "dtype": "torch.int{}", "shape": [{}, {}]}})",
                      round, round, round + 1);
      expected.push_back(fmt::format("[{}, {}]", round, round + 1));
    }
  }
  const Side side = SideFromEntries(R"("Torch.f.0.forward": {"output": [)" + outputs + "]}");
  ASSERT_EQ(side.rows.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    EXPECT_EQ(side.rows[row].shape, expected[row]) << row;
    EXPECT_EQ(side.rows[row].type, "torch.Tensor") << row;
  }
}

}  // namespace
}  // namespace msprobe::analysis::compare
