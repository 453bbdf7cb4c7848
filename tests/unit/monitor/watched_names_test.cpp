// What is watched, and under which name.
#include <gtest/gtest.h>

#include "src/monitor/schedule.h"

namespace msprobe::monitor {
namespace {

WatchedNames NamesOf(std::vector<std::string> targets, bool all_xy = false, bool squash = true) {
  Settings settings;
  settings.targets = std::move(targets);
  settings.all_xy = all_xy;
  settings.squash_name = squash;
  return WatchedNames(settings);
}

TEST(SquashName, LeavesOutWhatStandsBeforeTheMarker) {
  const auto squash = [](std::string_view name) { return SquashName(name, SquashRules::kFirst); };
  EXPECT_EQ(squash("module.language_model.encoder.layers.0.self_attention.query.weight"),
            "0.self_attention.query.weight");
  EXPECT_EQ(squash("embedding.weight"), "weight");
  EXPECT_EQ(squash("output_layer.weight"), "weight");
  EXPECT_EQ(squash("language_model.output_layer.weight"), "weight");
  EXPECT_EQ(squash("final_layernorm.weight"), "final_layernorm.weight");
  EXPECT_EQ(squash("model.norm.weight"), "norm.weight");
  EXPECT_EQ(squash("visual.blocks.0.norm1.weight"), "norm1.weight");
  EXPECT_EQ(squash("layers"), "layers");
  EXPECT_EQ(squash("layers.0"), "0");
  EXPECT_EQ(squash("layer1.0.conv1.weight"), "layer1.0.conv1.weight");
  EXPECT_EQ(squash(""), "");
}

TEST(SquashName, KeepsTheMarkerWhenAnchored) {
  const auto squash = [](std::string_view name) {
    return SquashName(name, SquashRules::kAnchored);
  };
  EXPECT_EQ(squash("module.encoder.layers.0.mlp"), "layers.0.mlp");
  EXPECT_EQ(squash("embedding.weight"), "embedding.weight");
  EXPECT_EQ(squash("output_layer.weight"), "output_layer.weight");
  EXPECT_EQ(squash("layers.0"), "layers.0");
  EXPECT_EQ(squash("model.norm.weight"), "norm.weight");
  EXPECT_EQ(squash("a.layer1.0"), "a.layer1.0");
  EXPECT_EQ(squash("a.layers.0.b.layers.1"), "layers.1");
  EXPECT_EQ(squash(".layers.0"), "layers.0");
}

TEST(Names, GiveEveryParameterToAnEmptyTarget) {
  WatchedNames names = NamesOf({""});
  EXPECT_EQ(names.OfParameter(0, "embedding.weight"), "0:weight");
  EXPECT_EQ(names.OfParameter(1, "layers.3.bias"), "1:3.bias");
}

TEST(Names, KeepTheFullNameOfAParameterWhoseShortOneIsTaken) {
  WatchedNames names = NamesOf({""});
  EXPECT_EQ(names.OfParameter(0, "embedding.weight"), "0:weight");
  EXPECT_EQ(names.OfParameter(0, "output_layer.weight"), "0:output_layer.weight");
  EXPECT_EQ(names.OfParameter(1, "embedding.weight"), "1:weight");
  names.Forget();
  EXPECT_EQ(names.OfParameter(0, "output_layer.weight"), "0:weight");
}

TEST(Names, MatchParametersUpToTheEndOfAPartOfTheName) {
  WatchedNames names = NamesOf({"layers.1"});
  EXPECT_TRUE(names.OfParameter(0, "layers.1.mlp.weight"));
  EXPECT_FALSE(names.OfParameter(0, "layers.10.mlp.weight"));
}

TEST(Names, MatchSquashedNamesOnlyBehindAStage) {
  WatchedNames staged = NamesOf({"0:0.mlp"});
  EXPECT_TRUE(staged.OfParameter(0, "layers.0.mlp.weight"));
  EXPECT_FALSE(staged.OfParameter(1, "layers.0.mlp.weight"));
  WatchedNames bare = NamesOf({"0.mlp"});
  EXPECT_FALSE(bare.OfParameter(0, "layers.0.mlp.weight"));
}

TEST(Names, MatchPatterns) {
  WatchedNames names = NamesOf({"layers.*.mlp"});
  EXPECT_EQ(names.OfModule(0, "layers.12.mlp"), "0:12.mlp");
  EXPECT_EQ(names.OfParameter(0, "layers.12.mlp.weight"), "0:12.mlp.weight");
  EXPECT_FALSE(names.OfModule(0, "layers.12.attention"));
}

TEST(Names, ReportAModuleUnderItsTarget) {
  WatchedNames names = NamesOf({"layers.1.mlp", "0:0.norm1"});
  EXPECT_EQ(names.OfModule(0, "layers.1.mlp"), "0:layers.1.mlp");
  EXPECT_EQ(names.OfModule(0, "layers.0.norm1"), "0:0.norm1");
  EXPECT_FALSE(names.OfModule(0, "layers.1"));
  EXPECT_FALSE(names.OfModule(0, "layers.1.mlp.0"));
}

TEST(Names, TellModulesApartWhoseShortNamesAreEqual) {
  WatchedNames names = NamesOf({""}, true);
  EXPECT_EQ(names.OfModule(0, "encoder.layers.0"), "0:0");
  EXPECT_EQ(names.OfModule(0, "decoder.layers.0"), "0:decoder.layers.0");
  EXPECT_EQ(names.OfModule(0, ""), "0:");
}

TEST(Names, StayWholeWhenSquashingIsOff) {
  WatchedNames names = NamesOf({""}, true, false);
  EXPECT_EQ(names.OfModule(0, "encoder.layers.0"), "0:encoder.layers.0");
}

WatchedNames NamesOfFeatures(FeatureHook hook, std::vector<std::string> targets) {
  Settings settings;
  settings.features.is_recorded = true;
  settings.features.targets[static_cast<size_t>(hook)] = std::move(targets);
  return WatchedNames(settings);
}

TEST(Names, OfFeaturesAreTheTargetsOfTheirHook) {
  WatchedNames names =
      NamesOfFeatures(FeatureHook::kAttention, {"layers.1.attention", "1:layers.*.core"});
  const auto name = [&](int32_t stage, std::string_view full_name) {
    return names.OfFeatureModule(FeatureHook::kAttention, stage, full_name);
  };
  EXPECT_EQ(name(0, "layers.1.attention"), "0:layers.1.attention");
  EXPECT_EQ(name(0, "layers.10.attention"), std::nullopt);
  EXPECT_EQ(name(0, "layers.2.core"), std::nullopt);
  EXPECT_EQ(name(1, "layers.2.core"), "1:2.core");
  EXPECT_EQ(names.OfFeatureModule(FeatureHook::kLinear, 0, "layers.1.attention"), std::nullopt);
}

TEST(Names, OfFeaturesAreAllWhereTheListIsEmptyAndKeepApart) {
  WatchedNames names = NamesOfFeatures(FeatureHook::kLinear, {});
  const auto name = [&](std::string_view full_name) {
    return names.OfFeatureModule(FeatureHook::kLinear, 0, full_name);
  };
  EXPECT_EQ(name("encoder.layers.0.mlp"), "0:0.mlp");
  EXPECT_EQ(name("decoder.layers.0.mlp"), "0:decoder.layers.0.mlp");
  names.Forget();
  EXPECT_EQ(name("decoder.layers.0.mlp"), "0:0.mlp");
}

TEST(Names, OfFeaturesAreNoneUnlessTheyAreRecorded) {
  Settings settings;
  settings.features.targets[static_cast<size_t>(FeatureHook::kLinear)].emplace();
  EXPECT_EQ(WatchedNames(settings).OfFeatureModule(FeatureHook::kLinear, 0, "a"), std::nullopt);
}

}  // namespace
}  // namespace msprobe::monitor
