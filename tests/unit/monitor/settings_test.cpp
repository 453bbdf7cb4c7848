// Keys of the configuration: checked, corrected, or told.
#include "src/monitor/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

Settings Load(std::string_view json) {
  Result<Settings> settings = LoadSettings({}, json);
  EXPECT_TRUE(settings.ok()) << settings.status().message();
  return settings.ok() ? *std::move(settings) : Settings();
}

std::string ErrorOf(std::string_view json) {
  const Result<Settings> settings = LoadSettings({}, json);
  return settings.ok() ? "no error" : settings.status().message();
}

TEST(MonitorSettings, HaveTheDefaultsOfThePythonTool) {
  const Settings settings = Load("{}");
  EXPECT_THAT(settings.targets, ElementsAre(""));
  EXPECT_FALSE(settings.all_xy);
  EXPECT_THAT(settings.ops, ElementsAre(Statistic::kNorm, Statistic::kShape, Statistic::kDType));
  EXPECT_EQ(settings.eps, 1e-8);
  EXPECT_EQ(settings.digits, 6);
  EXPECT_EQ(settings.significant_digits, 4);
  EXPECT_THAT(SettingsJson(settings), Not(HasSubstr("ndigits")));
  EXPECT_EQ(settings.format, Format::kCsv);
  EXPECT_EQ(settings.step_interval, 1);
  EXPECT_EQ(settings.collect_times, 100'000'000);
  EXPECT_EQ(settings.steps_per_file, 1);
  EXPECT_TRUE(settings.squash_name);
  EXPECT_THAT(settings.warnings, IsEmpty());
}

TEST(MonitorSettings, WatchEveryModuleWhenNoTargetIsNamed) {
  EXPECT_TRUE(Load(R"({"xy_distribution": true})").all_xy);
  EXPECT_TRUE(Load(R"({"xy_distribution": true, "targets": {}})").all_xy);
  EXPECT_FALSE(Load(R"({"xy_distribution": true, "targets": {"a": {}}})").all_xy);
}

TEST(MonitorSettings, RefuseWrongTypesWhereThePythonToolDoes) {
  EXPECT_THAT(ErrorOf(R"({"xy_distribution": 1})"), HasSubstr("\"xy_distribution\": is 1"));
  EXPECT_THAT(ErrorOf(R"({"targets": []})"), HasSubstr("\"targets\": is a list"));
  EXPECT_THAT(ErrorOf(R"({"targets": {"a": 1}})"), HasSubstr("targets.a"));
  EXPECT_THAT(ErrorOf(R"({"eps": 1})"), HasSubstr("\"eps\": is 1"));
  EXPECT_THAT(ErrorOf(R"({"ndigits": 21})"), HasSubstr("from 0 to 20"));
  EXPECT_THAT(ErrorOf(R"({"ndigits": true})"), HasSubstr("is true"));
  EXPECT_THAT(ErrorOf(R"({"step_count_per_record": 0})"), HasSubstr("from 1 to 1000000"));
  EXPECT_THAT(ErrorOf(R"({"module_ranks": [true]})"), HasSubstr("holds true"));
  EXPECT_THAT(ErrorOf(R"({"module_ranks": "0"})"), HasSubstr("a list of ranks"));
  EXPECT_THAT(ErrorOf(R"({"ops": "norm"})"), HasSubstr("\"ops\": is \"norm\""));
  EXPECT_THAT(ErrorOf(R"([])"), HasSubstr("one object of keys"));
}

TEST(MonitorSettings, CorrectWhatThePythonToolCorrects) {
  const Settings settings = Load(
      R"({"start_step": -1, "step_interval": 0, "collect_times": "x", "format": "xml",
          "monitor_mbs_grad": 1})");
  EXPECT_EQ(settings.start_step, 0);
  EXPECT_EQ(settings.step_interval, 1);
  EXPECT_EQ(settings.collect_times, 100'000'000);
  EXPECT_EQ(settings.format, Format::kCsv);
  EXPECT_FALSE(settings.monitor_mbs_grad);
  EXPECT_EQ(settings.warnings.size(), 5U);
}

TEST(MonitorSettings, TakeAWholeFloatForANumberOfTimes) {
  const Settings settings = Load(R"({"collect_times": 100000000.0})");
  EXPECT_EQ(settings.collect_times, 100'000'000);
  EXPECT_THAT(settings.warnings, IsEmpty());
}

TEST(MonitorSettings, TellUnknownKeysAndTheNearestKnownOne) {
  const Settings settings = Load(R"({"xy_distributoin": true, "mine": 3})");
  ASSERT_EQ(settings.warnings.size(), 2U);
  EXPECT_THAT(settings.warnings[0],
              AllOf(HasSubstr("xy_distributoin"), HasSubstr("did you mean \"xy_distribution\"?")));
  EXPECT_FALSE(settings.xy_distribution);
}

TEST(MonitorSettings, LeaveUnknownStatisticsOut) {
  const Settings some = Load(R"({"ops": ["max", "nrom", "dtype", "max"]})");
  EXPECT_THAT(some.ops, ElementsAre(Statistic::kMax, Statistic::kDType, Statistic::kShape));
  EXPECT_THAT(some.warnings, ElementsAre(HasSubstr("did you mean \"norm\"?")));
  EXPECT_THAT(Load(R"({"ops": ["calls"]})").ops,
              ElementsAre(Statistic::kNorm, Statistic::kShape, Statistic::kDType));
  EXPECT_THAT(Load(R"({"ops": ["std", "rms", "amax", "infs", "subnormals", "dynamic_range"]})").ops,
              ElementsAre(Statistic::kStd, Statistic::kRms, Statistic::kAmax, Statistic::kInfs,
                          Statistic::kSubnormals, Statistic::kDynamicRange, Statistic::kShape,
                          Statistic::kDType));
}

TEST(MonitorSettings, KnowTheKeysOfCommunication) {
  const Settings settings =
      Load(R"({"cc_distribution": {"enable": true, "cc_codeline": ["a.*"], "cc_pre_hook": true}})");
  EXPECT_TRUE(settings.cc.enable);
  EXPECT_TRUE(settings.cc.pre_hook);
  EXPECT_THAT(settings.cc.code_lines, ElementsAre("a.*"));
  EXPECT_THAT(ErrorOf(R"({"cc_distribution": {"enabel": true}})"), HasSubstr("enabel"));
  EXPECT_THAT(ErrorOf(R"({"cc_distribution": {"cc_codeline": ["a", "(b"]}})"),
              AllOf(HasSubstr("cc_codeline"), HasSubstr("\"(b\" is broken at character 3")));
  EXPECT_THAT(ErrorOf(R"({"cc_distribution": {"enable": 1}})"),
              HasSubstr("cc_distribution.enable"));
}

TEST(MonitorSettings, CheckTheRulesOfAlerts) {
  const Settings settings = Load(
      R"({"alert": {"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 5}},
                              {"rule_name": "AnomalyNan"}], "dump": true, "warm_up_steps": 3}})");
  ASSERT_EQ(settings.alert.rules.size(), 2U);
  EXPECT_EQ(settings.alert.rules[0].kind, AlertRule::Kind::kTurbulence);
  EXPECT_EQ(settings.alert.rules[0].threshold, 5);
  EXPECT_FALSE(settings.alert.rules[1].threshold);
  EXPECT_TRUE(settings.alert.dump);
  EXPECT_EQ(settings.alert.warm_up_steps, 3);
  EXPECT_THAT(ErrorOf(R"({"alert": {"rules": [{"rule_name": "AnomalyTurbulence"}]}})"),
              HasSubstr("alert.rules[0].args"));
  EXPECT_THAT(ErrorOf(R"({"alert": {"rules": [{"rule_name": "AnomalyNan", "args": {}}]}})"),
              HasSubstr("alert.rules[0].args.threshold"));
  EXPECT_THAT(
      ErrorOf(R"({"alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": -1}}]}})"),
      HasSubstr("is -1"));
  EXPECT_THAT(ErrorOf(R"({"alert": {"rules": [{"rule_name": "AnomalyNaN"}]}})"),
              HasSubstr("AnomalyTurbulence, AnomalyNan"));
  EXPECT_THAT(ErrorOf(R"({"alert": {"dump": "yes"}})"), HasSubstr("alert.dump"));
}

TEST(MonitorSettings, NeedTwoTimeStampsToAppend) {
  EXPECT_THAT(Load(R"({"append_output": ["Dec03_21-34-40", "Dec03_21-34-41"]})").append_output,
              ElementsAre("Dec03_21-34-40", "Dec03_21-34-41"));
  EXPECT_THAT(Load(R"({"append_output": []})").append_output, IsEmpty());
  EXPECT_THAT(ErrorOf(R"({"append_output": ["Dec03_21-34-40"]})"), HasSubstr("has 1 item"));
  EXPECT_THAT(ErrorOf(R"({"append_output": ["Dec03_21-34-42", "Dec03_21-34-41"]})"),
              HasSubstr("begins after its end"));
  EXPECT_THAT(ErrorOf(R"({"append_output": ["yesterday", "now"]})"), HasSubstr("yesterday"));
}

TEST(MonitorSettings, NameFileLineAndKeyInErrors) {
  const test_support::TemporaryFolder folder;
  test_support::Spill(folder / "m.json", "{\n  \"ops\": [],\n  \"ndigits\": \"six\"\n}");
  const Result<Settings> settings = LoadSettings(folder / "m.json", {});
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(),
              AllOf(HasSubstr("m.json line 3"), HasSubstr("\"ndigits\": is \"six\"")));
}

TEST(MonitorSettings, OfArgumentsWinOverTheFile) {
  const test_support::TemporaryFolder folder;
  test_support::Spill(folder / "m.json", R"({"ndigits": 3, "eps": 0.5})");
  const Result<Settings> settings = LoadSettings(folder / "m.json", R"({"ndigits": 9})");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->digits, 9);
  EXPECT_EQ(settings->significant_digits, 0);  // decimals, and nothing else
  EXPECT_THAT(SettingsJson(*settings), HasSubstr("\"ndigits\""));
  EXPECT_EQ(settings->eps, 0.5);
}

TEST(MonitorSettings, NameTheModulesWhoseFeaturesAreRecorded) {
  const FeatureSettings features = Load(R"({"recording_l2_features": true, "sa_order": "b,s,h,d",
      "l2_targets": {"linear_hook": [], "attention_hook": ["a", "b"]}})")
                                       .features;
  EXPECT_TRUE(features.is_recorded);
  EXPECT_EQ(features.layout, AttentionLayout::kBatchFirst);
  EXPECT_THAT(features.targets[static_cast<size_t>(FeatureHook::kAttention)],
              Optional(ElementsAre("a", "b")));
  EXPECT_THAT(features.targets[static_cast<size_t>(FeatureHook::kLinear)], Optional(IsEmpty()));
  EXPECT_EQ(features.targets[static_cast<size_t>(FeatureHook::kRouterLogit)], std::nullopt);
}

TEST(MonitorSettings, RefuseFeaturesOfNoModule) {
  EXPECT_THAT(ErrorOf(R"({"l2_targets": {"attention_hook": []}})"),
              HasSubstr("\"l2_targets.attention_hook\": is empty"));
  EXPECT_THAT(ErrorOf(R"({"l2_targets": {"attention": ["a"]}})"), HasSubstr("key \"attention\""));
  EXPECT_THAT(ErrorOf(R"({"l2_targets": {"linear_hook": "a"}})"), HasSubstr("linear_hook"));
  EXPECT_THAT(ErrorOf(R"({"l2_targets": ["a"]})"), HasSubstr("\"l2_targets\": is a list"));
  EXPECT_THAT(ErrorOf(R"({"sa_order": "h,d"})"), HasSubstr("s,b,h,d"));
  EXPECT_THAT(ErrorOf(R"({"recording_l2_features": 1})"), HasSubstr("recording_l2_features"));
}

TEST(MonitorSettings, TellThatFeaturesAreAskedForOfNothing) {
  EXPECT_THAT(Load(R"({"recording_l2_features": true})").warnings,
              ElementsAre(HasSubstr("\"l2_targets\" names none")));
  EXPECT_THAT(Load(R"({"recording_l2_features": false})").warnings, IsEmpty());
}

TEST(MonitorSettings, DoNotTakeColumnsOfOtherTablesForStatistics) {
  EXPECT_THAT(Load(R"({"ops": ["norm", "entropy", "calls"]})").warnings,
              ElementsAre(HasSubstr("\"entropy\""), HasSubstr("\"calls\"")));
}

TEST(MonitorSettings, MeanTheSameWhenReadBack) {
  const Settings settings = Load(
      R"({"targets": {"a": {}}, "xy_distribution": true, "ops": ["min", "std"], "eps": 0.25,
          "steps": ["3-5", 9], "squash_rules": "anchored", "format": "sqlite", "compat": true,
          "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 2.5,
          "ops": ["max"]}}], "window": 64}, "module_ranks": [3, 1], "cc_distribution":
          {"enable": true, "cc_codeline": ["x"]}, "recording_l2_features": true,
          "l2_targets": {"linear_hook": [], "attention_hook": ["a.b"]}, "sa_order": "b,s,h,d"})");
  EXPECT_THAT(settings.steps, ElementsAre(3, 4, 5, 9));
  const std::string json = SettingsJson(settings);
  EXPECT_EQ(SettingsJson(Load(json)), json);
}

// What `msprobe monitor run` records without a configuration, and prints with --example.
TEST(MonitorSettings, ToStartWithWatchTheWholeModelAndAlertForNan) {
  const std::string json = SettingsJson(SettingsToStartWith());
  const Settings settings = Load(json);
  EXPECT_TRUE(settings.all_xy);
  EXPECT_TRUE(settings.wg_distribution && settings.mv_distribution && settings.param_distribution);
  EXPECT_THAT(SettingsToStartWith().ops,
              ElementsAre(Statistic::kNorm, Statistic::kMin, Statistic::kMax, Statistic::kMean,
                          Statistic::kNans));
  EXPECT_EQ(settings.step_interval, 1);
  ASSERT_EQ(settings.alert.rules.size(), 1U);
  EXPECT_EQ(settings.alert.rules[0].kind, AlertRule::Kind::kNan);
  EXPECT_TRUE(settings.alert.dump);
  EXPECT_THAT(settings.warnings, IsEmpty());
  EXPECT_EQ(SettingsJson(Load(SettingsJson(SettingsToStartWith(), 2))), SettingsJson(settings));
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace msprobe::monitor
