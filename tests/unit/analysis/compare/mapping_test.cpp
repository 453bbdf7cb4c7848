#include "src/analysis/compare/mapping.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class MappingTest : public ::testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& text) {
    return folder_.Write(name, text);
  }

  // Entries with the suffixes of their rows.
  struct Entry {
    std::string name;
    std::vector<std::string> rows;
  };
  Side MakeSide(const std::string& which, Framework framework, const std::vector<Entry>& entries) {
    Side side;
    side.json_path = folder_.path() / which / "dump.json";
    side.framework = framework;
    for (const Entry& entry : entries) {
      const auto index = static_cast<uint32_t>(side.entries.size());
      side.entries.push_back({side.Keep(entry.name), static_cast<uint32_t>(side.rows.size()),
                              static_cast<uint32_t>(entry.rows.size())});
      for (const std::string& suffix : entry.rows) {
        SideRow row;
        row.name = side.Keep(entry.name + suffix);
        row.entry = index;
        if (const auto parsed = dump::ParseRowName(row.name)) {
          row.api_name = parsed->api_name;
          row.state = parsed->state;
        }
        side.rows.push_back(row);
      }
    }
    return side;
  }

  static std::vector<std::string> Keys(const Result<RowMapping>& mapping) {
    EXPECT_TRUE(mapping.ok()) << mapping.status().message();
    return mapping.ok() ? std::vector<std::string>(mapping->keys.begin(), mapping->keys.end())
                        : std::vector<std::string>();
  }

  const test_support::TemporaryFolder folder_;
};

TEST_F(MappingTest, RowsKeepTheirNamesWithoutFlags) {
  const Side npu = MakeSide("npu", Framework::kPyTorch, {{"Torch.add.0.forward", {".input.0"}}});
  const auto mapping = BuildRowMapping(MatchRules(), npu, npu);
  EXPECT_THAT(Keys(mapping), ElementsAre("Torch.add.0.forward.input.0"));
  EXPECT_FALSE(mapping->by_key_only);
}

TEST_F(MappingTest, DataMappingRenamesListedRowsAndDropsShapesFromTheKey) {
  const Side npu =
      MakeSide("npu", Framework::kPyTorch, {{"Torch.add.0.forward", {".input.0", ".output.0"}}});
  MatchRules options;
  options.data_mapping = {
      true, Write("map.yaml", "Torch.add.0.forward.input.0: Torch.sum.3.forward.input.k\n")};
  const auto mapping = BuildRowMapping(options, npu, npu);
  EXPECT_THAT(Keys(mapping),
              ElementsAre("Torch.sum.3.forward.input.k", "Torch.add.0.forward.output.0"));
  EXPECT_TRUE(mapping->by_key_only);
}

TEST_F(MappingTest, DataMappingMayUseAllOfYaml) {
  const Side npu =
      MakeSide("npu", Framework::kPyTorch, {{"Torch.add.0.forward", {".input.0", ".output.0"}}});
  MatchRules options;
  options.data_mapping = {true, Write("map.yaml",
                                      "# a comment\n"
                                      "\"Torch.add.0.forward.input.0\": 'Torch.a b'\n"
                                      "Torch.add.0.forward.output.0:   N/A   # none\n")};
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, npu)), ElementsAre("Torch.a b", "N/A"));
}

TEST_F(MappingTest, DataMappingNamesTheLineOfARepeatedName) {
  const Side npu = MakeSide("npu", Framework::kPyTorch, {});
  MatchRules options;
  options.data_mapping = {true, Write("map.yaml", "A.a.0: B.b.0\nA.a.0: B.b.1\n")};
  const auto mapping = BuildRowMapping(options, npu, npu);
  ASSERT_FALSE(mapping.ok());
  EXPECT_THAT(mapping.status().message(), HasSubstr("A.a.0"));
}

TEST_F(MappingTest, DataMappingWithoutAnyKnownRowWarns) {
  const Side npu = MakeSide("npu", Framework::kPyTorch, {{"Torch.add.0.forward", {".input.0"}}});
  MatchRules options;
  options.data_mapping = {true, Write("map.yml", "Torch.mul.0.forward.input.0: x\n")};
  const auto mapping = BuildRowMapping(options, npu, npu);
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  ASSERT_EQ(mapping->warnings.size(), 1U);
  EXPECT_THAT(mapping->warnings[0], HasSubstr("map.yml"));
}

TEST_F(MappingTest, DataMappingThatIsAListIsRefusedByName) {
  const Side npu = MakeSide("npu", Framework::kPyTorch, {});
  MatchRules options;
  options.data_mapping = {true, Write("map.yaml", "- a\n- b\n")};
  const auto mapping = BuildRowMapping(options, npu, npu);
  ASSERT_FALSE(mapping.ok());
  EXPECT_THAT(mapping.status().message(), HasSubstr("map.yaml"));
}

TEST_F(MappingTest, BareCellMappingTurnsCellsIntoModules) {
  const Side npu = MakeSide("npu", Framework::kMindSpore,
                            {{"Cell.net.CellList.forward.0", {".input.0"}},
                             {"Functional.lstmCell.0.forward", {".input.0"}}});
  MatchRules options;
  options.cell_mapping.given = true;
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, npu)),
              ElementsAre("Module.net.CellList.forward.0.input.0",
                          "Functional.lstmCell.0.forward.input.0"));
}

TEST_F(MappingTest, CellMappingFileRenamesPathAndClassInEveryDirection) {
  const Side npu = MakeSide("npu", Framework::kMindSpore,
                            {{"Cell.net.fc1.Dense.forward.0", {".parameters.weight"}},
                             {"Cell.net.fc1.Dense.backward.0", {".input.0"}},
                             {"Cell.net.fc1.Dense.parameters_grad", {".weight"}},
                             {"Cell.net.fc10.Dense.forward.0", {".input.0"}}});
  MatchRules options;
  options.cell_mapping = {true, Write("cells.yaml", "net.fc1.Dense: model.fc.Linear\n")};
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, npu)),
              ElementsAre("Module.model.fc.Linear.forward.0.parameters.weight",
                          "Module.model.fc.Linear.backward.0.input.0",
                          "Module.model.fc.Linear.parameters_grad.weight",
                          "Module.net.fc10.Dense.forward.0.input.0"));
}

TEST_F(MappingTest, BareApiMappingUsesTheBuiltInTable) {
  const Side npu = MakeSide("npu", Framework::kMindSpore,
                            {{"Functional.abs.0.forward", {".input.0"}},
                             {"Mint.add.0.forward", {".input.0"}},
                             {"MintFunctional.relu.0.forward", {".input.0"}},
                             {"Functional.dense.2.forward", {".output.0"}},
                             {"Functional.no_such_api.0.forward", {".input.0"}}});
  MatchRules options;
  options.api_mapping.given = true;
  EXPECT_THAT(
      Keys(BuildRowMapping(options, npu, npu)),
      ElementsAre("Torch.abs.0.forward.input.0", "Torch.add.0.forward.input.0",
                  "Functional.relu.0.forward.input.0", "Functional.linear.2.forward.output.0",
                  "Functional.no_such_api.0.forward.input.0"));
}

TEST_F(MappingTest, ApiMappingFileMovesPositionsAndAbandonsTheRest) {
  const Side npu = MakeSide(
      "npu", Framework::kMindSpore,
      {{"Functional.fa.4.forward",
        {".input.0", ".input.1.0", ".input.10", ".input.scale", ".output.0", ".output.1"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch, {{"NPU.fusion.4.forward", {".input.0"}}});
  MatchRules options;
  options.api_mapping = {true, Write("apis.yaml",
                                     "- ms_api: Functional.fa\n"
                                     "  pt_api: NPU.fusion\n"
                                     "  ms_args: [0, 1, scale]\n"
                                     "  pt_args: [1, 0, s]\n"
                                     "  ms_outputs: [0]\n"
                                     "  pt_outputs: [1]\n")};
  EXPECT_THAT(
      Keys(BuildRowMapping(options, npu, bench)),
      ElementsAre("NPU.fusion.4.forward.input.1", "NPU.fusion.4.forward.input.0.0",
                  "NPU.fusion.4.forward.input.10abandoned", "NPU.fusion.4.forward.input.s",
                  "NPU.fusion.4.forward.output.1", "NPU.fusion.4.forward.output.1abandoned"));
}

// A look at each position for each row would be 10^9 of them.
TEST_F(MappingTest, ApiMappingFileMayMoveManyPositions) {
  constexpr int kCount = 32'000;
  Entry call{"Functional.fa.4.forward", {}};
  std::string ms = "zero";
  std::string pt = "nothing";
  for (int i = 0; i < kCount; ++i) {
    call.rows.push_back(".input." + std::to_string(i) + (i % 2 == 0 ? "" : ".k"));
    ms += ", " + std::to_string(i);
    pt += ", " + std::to_string(kCount + i);
  }
  const Side npu = MakeSide("npu", Framework::kMindSpore, {call});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch, {{"NPU.fusion.4.forward", {".input.0"}}});
  MatchRules options;
  options.api_mapping = {
      true, Write("apis.yaml", "- ms_api: Functional.fa\n  pt_api: NPU.fusion\n  ms_args: [" + ms +
                                   ", 0]\n  pt_args: [" + pt + ", last]\n")};
  const std::vector<std::string> keys = Keys(BuildRowMapping(options, npu, bench));
  ASSERT_EQ(keys.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(keys[0], "NPU.fusion.4.forward.input.last");  // the later one counts
  EXPECT_EQ(keys[1], "NPU.fusion.4.forward.input.32001.k");
  EXPECT_EQ(keys[31'998], "NPU.fusion.4.forward.input.63998");
}

TEST_F(MappingTest, ApiMappingFileTakesTheLastOfSeveralRulesAndTheShortestName) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore, {{"Functional.fa.b.4.forward", {".input.0"}}});
  const Side bench = MakeSide("bench", Framework::kPyTorch,
                              {{"NPU.one.4.forward", {".input.0"}},
                               {"NPU.two.4.forward", {".input.0"}},
                               {"NPU.three.4.forward", {".input.0"}}});
  MatchRules options;
  const auto rule = [](const std::string& ms, const std::string& pt) {
    return "- ms_api: " + ms + "\n  pt_api: " + pt + "\n  ms_args: [0]\n  pt_args: [0]\n";
  };
  options.api_mapping = {
      true, Write("apis.yaml",
                  rule("Functional.fa.b", "NPU.three") + rule("Functional.fa", "NPU.one") +
                      rule("Functional.fa", "NPU.two") + rule("Functional.fa", "NPU.missing"))};
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, bench)),
              ElementsAre("NPU.two.b.4.forward.input.0"));
}

TEST_F(MappingTest, ApiMappingReadsTheUndocumentedSpellingOfOutputsToo) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore, {{"Functional.fa.0.forward", {".output.0"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch, {{"NPU.fusion.0.forward", {".output.0"}}});
  MatchRules options;
  options.api_mapping = {true, Write("apis.yaml",
                                     "- ms_api: Functional.fa\n"
                                     "  pt_api: NPU.fusion\n"
                                     "  ms_output: [0]\n"
                                     "  pt_output: [1]\n")};
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, bench)),
              ElementsAre("NPU.fusion.0.forward.output.1"));
}

TEST_F(MappingTest, ApiRuleOfUnequalListsIsLeftOutWithAWarning) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore, {{"Functional.abs.0.forward", {".input.0"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch, {{"Torch.abs.0.forward", {".input.0"}}});
  MatchRules options;
  options.api_mapping = {true, Write("apis.yaml",
                                     "- ms_api: Functional.abs\n"
                                     "  pt_api: Torch.abs\n"
                                     "  ms_args: [0]\n"
                                     "  pt_args: [0, 1]\n")};
  const auto mapping = BuildRowMapping(options, npu, bench);
  EXPECT_THAT(Keys(mapping), ElementsAre("Torch.abs.0.forward.input.0"));
  ASSERT_EQ(mapping->warnings.size(), 1U);
  EXPECT_THAT(mapping->warnings[0], HasSubstr("Functional.abs"));
}

TEST_F(MappingTest, ApiRuleNeedsItsApisInBothDumps) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore, {{"Functional.abs.0.forward", {".input.0"}}});
  const Side bench = MakeSide("bench", Framework::kPyTorch, {});
  MatchRules options;
  options.api_mapping = {true, Write("apis.yaml",
                                     "- ms_api: Functional.abs\n"
                                     "  pt_api: NPU.abs\n"
                                     "  ms_args: [0]\n"
                                     "  pt_args: [0]\n")};
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, bench)),
              ElementsAre("Torch.abs.0.forward.input.0"));
}

TEST_F(MappingTest, ApiMappingWinsOverTheOthersButDataMappingDecidesTheMerge) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore, {{"Functional.abs.0.forward", {".input.0"}}});
  MatchRules options;
  options.api_mapping.given = true;
  options.data_mapping = {true, Write("map.yaml", "Functional.abs.0.forward.input.0: x\n")};
  const auto mapping = BuildRowMapping(options, npu, npu);
  EXPECT_THAT(Keys(mapping), ElementsAre("Torch.abs.0.forward.input.0"));
  EXPECT_TRUE(mapping->by_key_only);
}

// Two layers of one block each: an API, a renamed child and the block itself.
class LayerMappingTest : public MappingTest {
 protected:
  void SetUp() override {
    Write("npu/stack.json", "{}");
    Write("bench/stack.json", "{}");
  }
  void WriteConstructs(const std::string& npu, const std::string& bench) {
    Write("npu/construct.json", npu);
    Write("bench/construct.json", bench);
  }
  MatchRules MakeOptions(const std::string& yaml) {
    MatchRules options;
    options.framework = Framework::kMindSpore;
    options.layer_mapping.given = true;
    if (!yaml.empty()) {
      options.layer_mapping.file = Write("layers.yaml", yaml);
    }
    return options;
  }
};

TEST_F(LayerMappingTest, PairsCallsByTranslatedPathAndOrder) {
  const Side npu = MakeSide("npu", Framework::kMindSpore,
                            {{"Mint.add.7.forward", {".input.0"}},
                             {"Mint.add.9.forward", {".input.0", ".input.k"}},
                             {"Cell.network.a.qkv.Dense.forward.0", {".output.0"}},
                             {"Cell.network.a.Attention.forward.0", {".output.0"}},
                             {"Cell.network.a.qkv.Dense.parameters_grad", {".weight"}}});
  const Side bench = MakeSide("bench", Framework::kPyTorch,
                              {{"Torch.add.0.forward", {".input.0"}},
                               {"Torch.add.1.forward", {".input.0"}},
                               {"Module.module.b.query.Linear.forward.0", {".output.0"}},
                               {"Module.module.b.Attention.forward.0", {".output.0"}},
                               {"Module.module.b.query.Linear.parameters_grad", {".weight"}}});
  WriteConstructs(R"({"Mint.add.7.forward": "Cell.network.a.Attention.forward.0",
                      "Mint.add.9.forward": "Cell.network.a.Attention.forward.0"})",
                  R"({"Torch.add.0.forward": "Module.module.b.Attention.forward.0",
                      "Torch.add.1.forward": "Module.module.b.Attention.forward.0"})");
  const auto mapping = BuildRowMapping(
      MakeOptions("Cell:\n  network.a: module.b(renamed)\nAttention:\n  qkv: query\n"), npu, bench);
  EXPECT_THAT(Keys(mapping),
              ElementsAre("Torch.add.0.forward.input.0", "Torch.add.1.forward.input.0", "N/A",
                          "Module.module.b.query.Linear.forward.0.output.0",
                          "Module.module.b.Attention.forward.0.output.0",
                          "Module.module.b.query.Linear.parameters_grad.weight"));
  EXPECT_TRUE(mapping->by_key_only);
  ASSERT_EQ(mapping->derived_data_mapping.size(), 6U);
  EXPECT_EQ(mapping->derived_data_mapping[2].first, "Mint.add.9.forward.input.k");
  EXPECT_EQ(mapping->derived_data_mapping[2].second, "N/A");
}

TEST_F(LayerMappingTest, BackwardCallsStandWhereTheirForwardCallsStood) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore,
               {{"Mint.mul.0.forward", {".output.0"}}, {"Mint.mul.0.backward", {".input.0"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch,
               {{"Torch.mul.0.forward", {".output.0"}}, {"Torch.mul.0.backward", {".input.0"}}});
  WriteConstructs(
      R"({"Mint.mul.0.forward": "Cell.net.Net.forward.0", "Mint.mul.0.backward": null})",
      R"({"Torch.mul.0.forward": "Module.net.Net.forward.0",
                      "Torch.mul.0.backward": "Module.other.Other.backward.0"})");
  EXPECT_THAT(Keys(BuildRowMapping(MakeOptions(""), npu, bench)),
              ElementsAre("Torch.mul.0.forward.output.0", "Torch.mul.0.backward.input.0"));
}

TEST_F(LayerMappingTest, PipelineStagesNumberTheirLayersFromZero) {
  const Side npu = MakeSide("npu", Framework::kMindSpore,
                            {{"Cell.net.layers.4.Layer.forward.0", {".output.0"}},
                             {"Cell.net.layers.12.Layer.forward.0", {".output.0"}},
                             {"Cell.net.ParallelTransformer.forward.0", {".output.0"}}});
  const Side bench = MakeSide("bench", Framework::kPyTorch,
                              {{"Module.net.layers.0.Layer.forward.0", {".output.0"}},
                               {"Module.net.layers.8.Layer.forward.0", {".output.0"}},
                               {"Module.net.ParallelTransformer.forward.0", {".output.0"}}});
  WriteConstructs("{}", "{}");
  EXPECT_THAT(Keys(BuildRowMapping(MakeOptions(""), npu, bench)),
              ElementsAre("Module.net.layers.0.Layer.forward.0.output.0",
                          "Module.net.layers.8.Layer.forward.0.output.0",
                          "Module.net.ParallelTransformer.forward.0.output.0"));
}

TEST_F(LayerMappingTest, FramesOfTheOlderStackLayoutTellCallsApart) {
  const Side npu =
      MakeSide("npu", Framework::kMindSpore,
               {{"Mint.add.0.forward", {".output.0"}}, {"Mint.add.1.forward", {".output.0"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch,
               {{"Torch.add.0.forward", {".output.0"}}, {"Torch.add.1.forward", {".output.0"}}});
  WriteConstructs("{}", "{}");
  const std::string inside =
      "\"File /x/site-packages/mindspore/nn/loss.py, line 3, in smooth, \\n y\"";
  const std::string npu_model = "\"File /u/model.py, line 1, in construct, \\n y\"";
  Write("npu/stack.json", "{\"Mint.add.0.forward\": [" + inside + ", " + npu_model +
                              "], \"Mint.add.1.forward\": [" + npu_model + "]}");
  const std::string torch_inside =
      "\"File /x/site-packages/torch/nn/loss.py, line 3, in smooth, \\n y\"";
  const std::string bench_model = "\"File /u/model.py, line 1, in forward, \\n y\"";
  Write("bench/stack.json", "{\"Torch.add.0.forward\": [" + bench_model +
                                "], \"Torch.add.1.forward\": [" + torch_inside + ", " +
                                bench_model + "]}");
  EXPECT_THAT(Keys(BuildRowMapping(MakeOptions(""), npu, bench)),
              ElementsAre("Torch.add.1.forward.output.0", "Torch.add.0.forward.output.0"));
}

TEST_F(LayerMappingTest, FramesOfTheGroupedStackLayoutCountOnlyWhenAskedFor) {
  const Side npu = MakeSide("npu", Framework::kMindSpore, {{"Mint.add.0.forward", {".output.0"}}});
  const Side bench =
      MakeSide("bench", Framework::kPyTorch, {{"Torch.add.0.forward", {".output.0"}}});
  WriteConstructs("{}", "{}");
  Write("npu/stack.json",
        R"({"0": [["Mint.add.0.forward"],
                  ["File /x/site-packages/mindspore/a.py, line 3, in smooth, \n y"]]})");
  MatchRules options = MakeOptions("");
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, bench)),
              ElementsAre("Torch.add.0.forward.output.0"));
  options.layer_mapping_frames = true;
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, bench)), ElementsAre("N/A"));
}

TEST_F(LayerMappingTest, AnEntryOfUnknownFormStaysUnmatchedWithAWarning) {
  const Side npu = MakeSide("npu", Framework::kMindSpore, {{"loss.0.debug", {""}}});
  WriteConstructs("{}", "{}");
  const auto mapping = BuildRowMapping(MakeOptions(""), npu, npu);
  EXPECT_THAT(Keys(mapping), ElementsAre("N/A"));
  ASSERT_FALSE(mapping->warnings.empty());
  EXPECT_THAT(mapping->warnings[0], HasSubstr("loss.0.debug"));
}

TEST_F(LayerMappingTest, MissingConstructJsonIsAnErrorWithARemedy) {
  const Side npu = MakeSide("npu", Framework::kMindSpore, {{"Mint.add.0.forward", {".output.0"}}});
  const auto mapping = BuildRowMapping(MakeOptions(""), npu, npu);
  ASSERT_FALSE(mapping.ok());
  EXPECT_THAT(mapping.status().message(), HasSubstr("construct.json"));
  EXPECT_THAT(mapping.status().hint(), HasSubstr("construct.json"));
}

TEST_F(LayerMappingTest, IsIgnoredForPyTorch) {
  const Side npu = MakeSide("npu", Framework::kPyTorch, {{"Torch.add.0.forward", {".output.0"}}});
  MatchRules options = MakeOptions("");
  options.framework = Framework::kPyTorch;
  EXPECT_THAT(Keys(BuildRowMapping(options, npu, npu)),
              ElementsAre("Torch.add.0.forward.output.0"));
}

}  // namespace
}  // namespace msprobe::analysis::compare
