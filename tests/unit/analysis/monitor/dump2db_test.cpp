#include "src/analysis/monitor/dump2db.h"

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/monitor/store_query.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using ::msprobe::testing::TemporaryFolder;

std::string TagsText(std::string_view name) {
  std::string text;
  for (const TrendStore::NameTag& tag : TagsOfDumpName(name)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", tag.category, tag.name);
  }
  return text;
}

TEST(TagsOfDumpName, TellLayerModulesFunctionAndPlaceOfAModule) {
  EXPECT_EQ(TagsText("Module.layers.10.mlp.fc1.Linear.forward.0.input.0"),
            "module=layers layer=layers.10 module=mlp module=fc1 default=Module function=Linear "
            "index=input.0");
  EXPECT_EQ(TagsText("Module.fc.Linear.forward.0.parameters.weight"),
            "module=fc default=Module function=Linear index=parameters.weight");
  EXPECT_EQ(TagsText("Module.fc.Linear.parameters_grad.weight"),
            "module=fc default=Module function=Linear index=parameters_grad.weight");
}

TEST(TagsOfDumpName, TellFunctionAndPlaceOfAnApi) {
  EXPECT_EQ(TagsText("Functional.linear.3.backward.output.1"),
            "default=Functional function=linear index=output.1");
  EXPECT_EQ(TagsText("Torch.f.0.forward.input.2.b.0"), "default=Torch function=f index=input.2");
  EXPECT_EQ(TagsText("Primitive.matmul.MatMul.0.forward.input.0"),
            "module=matmul default=Primitive function=MatMul index=input.0");
}

TEST(TagsOfDumpName, TakeOddNamesByTheirParts) {
  EXPECT_EQ(TagsText("a.0.b"), "module=a layer=a.0 module=b");
  EXPECT_EQ(TagsText(""), "");
}

Result<StoreResult> Convert(const std::filesystem::path& dump, const TemporaryFolder& files,
                            const NameMapping& mapping = {}) {
  StoreOptions options;
  options.data = dump;
  options.output = files / "store";
  options.mapping = mapping;
  return ConvertDumpToStore(options);
}

TEST(ConvertDumpToStore, SortsTheTensorsOfADumpByMetric) {
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
  EXPECT_EQ(Query(result->file,
                  "SELECT rank, step, metric_name, norm, max, min FROM trend_data JOIN "
                  "monitoring_metrics USING (metric_id) JOIN monitoring_targets USING (target_id) "
                  "WHERE target_name='Module.blocks.1.attn.qkv.Linear.forward.1.input.0'"),
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

TEST(ConvertDumpToStore, ReadsNumbersHoweverTheyAreSpelled) {
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
            "2|3|-|1000000001.0|2.5|-;2|12|7.0|1.0|0.0|-;10|3|-|-1000000001.0|-1000000000.0|-");
}

TEST(ConvertDumpToStore, MapsNamesAndTakesTagsOfTheNewOnes) {
  const TemporaryFolder files;
  files.Write("dump.json", DumpOf("Module.model.fc.Linear.forward.0", R"("Norm": 1)"));
  const auto result = Convert(files / "dump.json", files, {{"model.", ""}, {"fc", "head"}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(Query(result->file, "SELECT target_name FROM monitoring_targets"),
            "Module.head.Linear.forward.0.output.0");
  EXPECT_EQ(Query(result->file, "SELECT tag_name FROM monitoring_tags WHERE category='module'"),
            "head");
}

TEST(ConvertDumpToStore, UsesWhatDamagedFilesStillHold) {
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
  EXPECT_NE(result->warnings[0].find("rank1/dump.json ends early"), std::string::npos);
  EXPECT_NE(result->warnings[1].find("in front of this place is used"), std::string::npos);
  EXPECT_NE(result->warnings[2].find("nothing of it is used"), std::string::npos);
}

TEST(ConvertDumpToStore, LeavesOutWhatIsNoCallAndNamesBeyondMeasure) {
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

TEST(ConvertDumpToStore, SaysWhichFileCountsWhenTwoHaveOnePlace) {
  const TemporaryFolder files;
  files.Write("dump/step0/rank/dump.json", DumpOf("Torch.f.0.forward", R"("Norm": 1)"));
  files.Write("dump/step0/rank0/dump.json", DumpOf("Torch.f.0.forward", R"("Norm": 2)"));
  const auto result = Convert(files / "dump", files);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(Query(result->file, "SELECT norm FROM trend_data"), "2.0");
  ASSERT_EQ(result->warnings.size(), 1U);
  EXPECT_NE(result->warnings[0].find("rank0/dump.json is one more of rank 0 and step 0"),
            std::string::npos);
}

TEST(ConvertDumpToStore, KeepsTheOldStoreWhenADumpHoldsNothing) {
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
}  // namespace msprobe::monitor
