#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/monitor/store/store.h"
#include "src/base/output_files.h"
#include "tests/unit/analysis/monitor/store_query.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using ::msprobe::test_support::TemporaryFolder;

std::string TagsText(std::string_view name) {
  std::string text;
  for (const msprobe::monitor::TrendStore::NameTag& tag : TagsOfDumpName(name)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", tag.category, tag.name);
  }
  return text;
}

TEST(TagsOfDumpName, TellLayerAndModulesAndPlaceOfAModule) {
  EXPECT_EQ(TagsText("Module.layers.10.mlp.fc1.Linear.input.0"),
            "default=Module layer=layers.10 module=mlp.fc1.Linear index=input.0");
  EXPECT_EQ(TagsText("Module.0.module.decoder.layers.0.mlp.MLP.output.0"),
            "default=Module module=module.decoder layer=layers.0 module=mlp.MLP index=output.0");
  EXPECT_EQ(TagsText("Module.fc.Linear.parameters_grad.weight"),
            "default=Module module=fc.Linear index=parameters_grad.weight");
}

TEST(TagsOfDumpName, TellFunctionAndPlaceOfAnApi) {
  EXPECT_EQ(TagsText("Functional.linear.output.1"), "function=Functional.linear index=output.1");
  EXPECT_EQ(TagsText("Torch.f.input.2.b.0"), "function=Torch.f index=input.2");
}

TEST(TagsOfDumpName, TakeOddNamesByTheirParts) {
  EXPECT_EQ(TagsText("a.0.b"), "function=a.0.b");
  EXPECT_EQ(TagsText(""), "");
}

Result<StoreResult> Convert(const std::filesystem::path& dump, const TemporaryFolder& files,
                            const NameMapping& mapping = {}) {
  StoreOptions options;
  options.data = dump;
  options.output = files / "store";
  options.mapping = mapping;
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  return RunDump2Db(options);
}

TEST(RunDump2Db, SortsTheTensorsOfADumpByMetric) {
  const TemporaryFolder files;
  const auto result = Convert(MSPROBE_TEST_DATA "/dump/gpt_recompute_mix/dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->file, files / "store/dump_data.trend.db");
  EXPECT_EQ(result->rows, 619U);
  EXPECT_EQ(result->ranks, 1U);
  EXPECT_EQ(result->warnings.size(), 0U);
  EXPECT_EQ(Query(result->file,
                  "SELECT metric_name, count(*) FROM trend_data JOIN monitoring_metrics USING "
                  "(metric_id) GROUP BY metric_name ORDER BY metric_name"),
            "backward|165;forward|231;parameters_grad|29;recompute|194");
  EXPECT_EQ(
      Query(result->file,
            "SELECT rank, step, metric_name, norm, max, min FROM trend_data JOIN "
            "monitoring_metrics USING (metric_id) JOIN monitoring_targets USING (target_id) "
            "WHERE target_name='Module.blocks.1.attn.qkv.Linear.input.0' AND micro_step=1 AND "
            "metric_name='recompute'"),
      "0|0|recompute|15.9999561309814|2.44119715690613|-2.40698742866516");
  EXPECT_EQ(Query(result->file, "SELECT min_step, max_step, max_rank, recompute FROM global_stats"),
            "0|0|0|norm,max,min,mean");
  EXPECT_EQ(Query(result->file, "SELECT DISTINCT category FROM monitoring_tags ORDER BY category"),
            "default;function;index;layer;module");
}

// One call with one tensor, of these statistics.
std::string DumpOf(std::string_view name, std::string_view statistics) {
  return fmt::format(
      R"({{"data": {{"{}": {{"output": [{{"type": "torch.Tensor", "dtype": "torch.float32", {}}}]}}}}}})",
      name, statistics);
}

constexpr std::string_view kRows = "SELECT rank, step, norm, max, min, mean FROM trend_data";

TEST(RunDump2Db, ReadsNumbersHoweverTheyAreSpelled) {
  const TemporaryFolder files;
  files.Write(
      "dump/step3/rank2/dump.json",
      DumpOf("Torch.f.0.forward", R"("Max": "inf", "Min": "2.5", "Mean": null, "Norm": NaN)"));
  files.Write("dump/step12/rank2/dump.json",
              DumpOf("Torch.f.0.forward", R"("Max": true, "Min": false, "Norm": 7)"));
  files.Write("dump/step3/rank10/dump.json",
              DumpOf("Torch.f.0.forward", R"("Max": -Infinity, "Min": -1e30, "Mean": "x")"));
  const auto result = Convert(files / "dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->names, 1U);
  EXPECT_EQ(result->ranks, 2U);
  EXPECT_EQ(Query(result->file, std::string(kRows)),
            "2|0|-|1000000001.0|2.5|-;2|1|7.0|1.0|0.0|-;10|0|-|-1000000001.0|-1000000000.0|-");
}

// Two calls of one module and of an API within each.
constexpr std::string_view kTwoMicroSteps =
    R"({"data": {"Torch.f.0.forward": {"output": [{"type": "t", "dtype": "f", "Norm": 1}]},
        "Module.m.M.forward.0": {"output": [{"type": "t", "dtype": "f", "Norm": 2}]},
        "Torch.loss.0.forward": {"output": [{"type": "t", "dtype": "f", "Norm": 3}]},
        "Torch.f.1.forward": {"output": [{"type": "t", "dtype": "f", "Norm": 4}]},
        "Torch.f.2.forward": {"output": [{"type": "t", "dtype": "f", "Norm": 5}]},
        "Module.m.M.forward.1": {"output": [{"type": "t", "dtype": "f", "Norm": 6}]}}})";
constexpr std::string_view kTwoMicroStepsConstruct =
    R"({"Torch.f.0.forward": "Module.m.M.forward.0", "Module.m.M.forward.0": null,
        "Torch.f.1.forward": "Module.m.M.forward.1", "Torch.f.2.forward": "Module.m.M.forward.1",
        "Module.m.M.forward.1": null})";
constexpr std::string_view kPlaces =
    "SELECT step, target_name, micro_step, norm FROM trend_data JOIN monitoring_targets USING "
    "(target_id) ORDER BY step, norm";

TEST(RunDump2Db, GivesEveryMicroStepAStepOfItsOwn) {
  const TemporaryFolder files;
  for (const char* step : {"step0", "step7"}) {
    files.Write(fmt::format("dump/{}/rank0/dump.json", step), std::string(kTwoMicroSteps));
  }
  files.Write("dump/step0/rank0/construct.json", std::string(kTwoMicroStepsConstruct));
  StoreOptions options;
  options.data = files / "dump";
  options.output = files / "store";
  const auto result = RunDump2Db(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // Without construct.json nothing tells the micro steps of step 7.
  EXPECT_EQ(Query(result->file, std::string(kPlaces)),
            "0|Torch.f.output.0|0|1.0;0|Module.m.M.output.0|0|2.0;0|Torch.loss.output.0|0|3.0;"
            "1|Torch.f.output.0|0|4.0;1|Torch.f.output.0|1|5.0;1|Module.m.M.output.0|0|6.0;"
            "2|Torch.f.output.0|0|1.0;2|Module.m.M.output.0|0|2.0;2|Torch.loss.output.0|0|3.0;"
            "2|Torch.f.output.0|1|4.0;2|Torch.f.output.0|2|5.0;2|Module.m.M.output.0|1|6.0");
  options.number_micro_steps = false;
  options.output = files / "plain";
  const auto plain = RunDump2Db(options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(Query(plain->file, "SELECT DISTINCT step FROM trend_data ORDER BY step"), "0;7");
}

TEST(RunDump2Db, SurvivesAConstructFileThatGoesInACircle) {
  const TemporaryFolder files;
  files.Write("dump/step0/rank0/dump.json", DumpOf("Torch.f.0.forward", R"("Norm": 1)"));
  files.Write("dump/step0/rank0/construct.json",
              R"({"a": "b", "b": "a", "Torch.f.0.forward": "a"})");
  EXPECT_TRUE(Convert(files / "dump", files).ok());
}

TEST(RunDump2Db, NumbersProcessesWithoutARankBehindTheRanks) {
  const TemporaryFolder files;
  for (const char* folder : {"rank0", "rank1", "proc100", "proc20"}) {
    files.Write(fmt::format("dump/step0/{}/dump.json", folder),
                DumpOf("Torch.f.0.forward", fmt::format(R"("Norm": {})", folder + 4)));
  }
  const auto result = Convert(files / "dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(Query(result->file, "SELECT rank, norm FROM trend_data ORDER BY rank"),
            "0|0.0;1|1.0;2|20.0;3|100.0");
}

TEST(RunDump2Db, MapsNamesAndTakesTagsOfTheNewOnes) {
  const TemporaryFolder files;
  files.Write("dump.json", DumpOf("Module.model.fc.Linear.forward.0", R"("Norm": 1)"));
  const auto result = Convert(files / "dump.json", files, {{"model.", ""}, {"fc", "head"}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(Query(result->file, "SELECT target_name FROM monitoring_targets"),
            "Module.head.Linear.output.0");
  EXPECT_EQ(Query(result->file, "SELECT tag_name FROM monitoring_tags WHERE category='module'"),
            "head.Linear");
}

TEST(RunDump2Db, UsesWhatDamagedFilesStillHold) {
  const TemporaryFolder files;
  const std::string whole = DumpOf("Torch.f.0.forward", R"("Norm": 1)");
  files.Write("dump/step0/rank0/dump.json", whole);
  files.Write("dump/step0/rank1/dump.json", whole.substr(0, whole.size() - 2) + ", \"Torch.g");
  files.Write("dump/step0/rank2/dump.json", whole.substr(0, whole.size() - 2) + ", ]");
  files.Write("dump/step0/rank3/dump.json", "no dump");
  const auto result = Convert(files / "dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->rows, 3U);
  ASSERT_EQ(result->warnings.size(), 3U);
  EXPECT_NE(result->warnings[0].find("rank1/dump.json is truncated"), std::string::npos);
  EXPECT_NE(result->warnings[1].find("the entries before it are used"), std::string::npos);
  EXPECT_NE(result->warnings[2].find("nothing of it is used"), std::string::npos);
}

TEST(RunDump2Db, LeavesOutWhatIsNoCallAndNamesBeyondMeasure) {
  const TemporaryFolder files;
  const std::string tensor = R"({"output": [{"type": "t", "dtype": "f", "Norm": 1}]})";
  files.Write("dump.json",
              fmt::format(R"({{"data": {{"a.0.forward": {0}, "loss.0.debug": {0}, "x.y": {0},
                              "{1}.0.forward": {0}}}}})",
                          tensor, std::string(5000, 'n')));
  const auto result = Convert(files / "dump.json", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->rows, 1U);
  ASSERT_EQ(result->warnings.size(), 2U);
  EXPECT_NE(result->warnings[0].find("calls: 2"), std::string::npos);
  EXPECT_NE(result->warnings[1].find("1 name of more than 1024 bytes"), std::string::npos);
}

TEST(RunDump2Db, SaysWhichFileCountsWhenTwoHaveOnePlace) {
  const TemporaryFolder files;
  files.Write("dump/step0/rank/dump.json", DumpOf("Torch.f.0.forward", R"("Norm": 1)"));
  files.Write("dump/step0/rank0/dump.json", DumpOf("Torch.f.0.forward", R"("Norm": 2)"));
  const auto result = Convert(files / "dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(Query(result->file, "SELECT norm FROM trend_data"), "2.0");
  ASSERT_EQ(result->warnings.size(), 1U);
  EXPECT_NE(result->warnings[0].find("rank0/dump.json is another file of rank 0 and step 0"),
            std::string::npos);
}

TEST(RunDump2Db, KeepsTheOldStoreWhenADumpHoldsNothing) {
  const TemporaryFolder files;
  files.Write("store/dump_data.trend.db", "old");
  const auto path = files.Write("dump.json", DumpOf("Torch.f.0.forward", R"("shape": [2])"));
  EXPECT_EQ(Convert(path, files).status().code(), StatusCode::kBadFormat);
  files.Write("dump.json", "no dump");
  EXPECT_EQ(Convert(path, files).status().code(), StatusCode::kBadFormat);
  EXPECT_EQ(Convert(files / "debug.json", files).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(std::filesystem::file_size(files / "store/dump_data.trend.db"), 3U);
  EXPECT_FALSE(std::filesystem::exists(files / "store/.dump_data.trend.db.partial"));
}

}  // namespace
}  // namespace msprobe::analysis::monitor
