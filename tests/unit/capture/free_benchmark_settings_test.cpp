#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/capture/settings.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<FreeBenchmarkSettings> LoadFuzz(std::string_view section, std::string_view overrides = "") {
  const TemporaryFolder folder;
  return LoadFreeBenchmarkSettings(
      folder.Write("config.json",
                   "{\"dump_path\": \"out\", \"step\": [\"2-3\", 0],\n\"free_benchmark\": {" +
                       std::string(section) + "}}"),
      overrides);
}

TEST(FreeBenchmarkSettings, HaveTheDefaultsOfThePythonTool) {
  const auto settings = LoadFuzz("");
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->pert_mode, "improve_precision");
  EXPECT_EQ(settings->fuzz_device, "npu");
  EXPECT_EQ(settings->handler_type, "check");
  EXPECT_EQ(settings->fuzz_stage, "forward");
  EXPECT_FALSE(settings->if_preheat);
  EXPECT_EQ(settings->preheat_step, 15);
  EXPECT_EQ(settings->max_sample, 15);
  EXPECT_THAT(settings->steps, ElementsAre(0, 2, 3));
}

TEST(FreeBenchmarkSettings, AreWhatWasGivenAndArgumentsWin) {
  const auto settings = LoadFuzz(
      R"("list": "relu", "pert_mode": "to_cpu", "fuzz_device": "cpu", "if_preheat": true, "preheat_step": 3)",
      R"({"dump_path": "other", "step": [1]})");
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_THAT(settings->list, ElementsAre("relu"));
  const auto json = nlohmann::json::parse(FreeBenchmarkJson(*settings));
  EXPECT_EQ(json["dump_path"], "other");
  EXPECT_EQ(json["step"], nlohmann::json({1}));
  EXPECT_EQ(json["pert_mode"], "to_cpu");
  EXPECT_EQ(json["preheat_step"], 3);
}

TEST(FreeBenchmarkSettings, OfMindSporeHaveNoToCpu) {
  const TemporaryFolder folder;
  const auto settings = LoadFreeBenchmarkSettings(
      folder.Write("config.json",
                   "{\"dump_path\": \"out\",\n\"free_benchmark\": {\"pert_mode\": \"to_cpu\", "
                   "\"fuzz_device\": \"cpu\"}}"),
      "", Framework::kMindSpore);
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(), HasSubstr("config.json line 2"));
  EXPECT_THAT(settings.status().message(), HasSubstr("which MindSpore does not have"));
}

TEST(FreeBenchmarkSettings, NameWhatIsWrongByPlaceAndSayWhatIsAllowed) {
  const std::pair<const char*, const char*> rows[] = {
      {R"("pert_mode": "noise")", R"(is "noise"; allowed: add_noise, change_value)"},
      {R"("fuzz_device": "gpu")", "allowed: npu, cpu"},
      {R"("fuzz_level": "L0")", "allowed: L1"},
      {R"("fuzz_stage": "both")", "allowed: forward, backward"},
      {R"("handler_type": "repair")", "allowed: check, fix"},
      {R"("if_preheat": 1)", "allowed: true, false"},
      {R"("if_preheat": true, "preheat_step": 0)", "integers from 1"},
      {R"("max_sample": -1)", "integers from 1"},
      {R"("list": [1])", "a list of texts"},
      {R"("pert_mode": "to_cpu")", R"(needs "fuzz_device": "cpu")"},
      {R"("fuzz_device": "cpu")", "belongs to pert_mode to_cpu"},
      {R"("handler_type": "fix", "if_preheat": true)", R"(needs "if_preheat": false)"},
      {R"("handler_type": "fix", "fuzz_stage": "backward")", R"(needs "fuzz_stage": "forward")"},
      {R"("handler_type": "fix", "pert_mode": "no_change")", "improve_precision or to_cpu"},
      {R"("noise_ulps": 2)", "belongs to pert_mode add_noise"},
      {R"("scope": ["a"], "list": ["b"])", "beside scope"},
      {R"("pert_mod": "no_change")", "no such key"}};
  for (const auto& [section, complaint] : rows) {
    const auto settings = LoadFuzz(section);
    ASSERT_FALSE(settings.ok()) << section;
    EXPECT_EQ(settings.status().code(), StatusCode::kUsage);
    EXPECT_THAT(settings.status().message(), HasSubstr("line 2: key \"free_benchmark."));
    EXPECT_THAT(settings.status().message(), HasSubstr(complaint));
  }
}

TEST(FreeBenchmarkSettings, NeedNoPreheatStepWithoutPreheating) {
  EXPECT_TRUE(LoadFuzz(R"("preheat_step": 0)").ok());
}

// What `msprobe free_benchmark` does without a configuration, and prints with --example.
TEST(FreeBenchmarkSettings, ToStartWithMeanTheSameAsAFileAndAsOverrides) {
  const FreeBenchmarkSettings defaults = FreeBenchmarkToStartWith();
  EXPECT_EQ(defaults.pert_mode, "add_noise") << "every floating dtype takes it";
  const std::string json = FreeBenchmarkJson(defaults);
  const TemporaryFolder folder;
  const auto of_file =
      LoadFreeBenchmarkSettings(folder.Write("a.json", FreeBenchmarkConfig(defaults, 2)), "");
  ASSERT_TRUE(of_file.ok()) << of_file.status().message();
  EXPECT_EQ(FreeBenchmarkJson(*of_file), json);
  const auto of_overrides = LoadFreeBenchmarkSettings("", FreeBenchmarkConfig(defaults, -1));
  ASSERT_TRUE(of_overrides.ok()) << of_overrides.status().message();
  EXPECT_EQ(FreeBenchmarkJson(*of_overrides), json);
  EXPECT_EQ(nlohmann::json::parse(FreeBenchmarkConfig(defaults, 2))["task"], "free_benchmark");
  EXPECT_EQ(FreeBenchmarkConfig(defaults, -1).find('\n'), std::string::npos);
}

TEST(FreeBenchmarkSettings, OverridesHoldTheSectionOnlyWithoutAFile) {
  const auto settings = LoadFuzz("", R"({"free_benchmark": {"pert_mode": "no_change"}})");
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(), HasSubstr("free_benchmark"));
}

}  // namespace
}  // namespace msprobe::capture
