#include "src/layout/layout_file.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::layout {
namespace {

constexpr const char* kWhole = R"({"schema_version": 1, "rank": 1, "world_size": 4,
  "groups": {"tp": [0, 1], "dp": [1, 3]},
  "parameters": {"decoder.fc1.weight": {"kind": "shard", "dim": 0, "part": 1, "parts": 2,
                                        "global_shape": [8, 4], "blocks": [4, 4]},
                 "norm.weight": {"kind": "replicated"}},
  "layers": {"decoder.layers.0": "decoder.layers.4", "decoder": "model"},
  "experts": {"moe.local_experts.1": 5},
  "sequence": {"dim": 1, "part": 1, "parts": 2, "order": "zigzag"}, "of_a_later_version": {}})";

TEST(LayoutFile, HoldsWhatTheCaptureWrote) {
  const Result<RankLayout> layout = ParseLayout(kWhole, "layout.json");
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->rank, 1);
  EXPECT_EQ(layout->world_size, 4);
  EXPECT_EQ(layout->GroupOf(Group::kTensor), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(layout->GroupOf(Group::kData), (std::vector<int64_t>{1, 3}));
  EXPECT_TRUE(layout->GroupOf(Group::kPipeline).empty());
  const ParameterRecord* const weight = layout->Find("decoder.fc1.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->kind, ParameterKind::kShard);
  EXPECT_EQ(weight->blocks, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(weight->Text(), "shard dim 0 x2 part 1");
  EXPECT_EQ(layout->Find("norm.weight")->Text(), "replicated");
  EXPECT_EQ(layout->Find("head.weight"), nullptr);
  ASSERT_TRUE(layout->sequence);
  EXPECT_TRUE(layout->sequence->is_zigzag);
}

TEST(LayoutFile, TranslatesPathsByTheLongestPrefixAndNumbersExperts) {
  const Result<RankLayout> layout = ParseLayout(kWhole, "layout.json");
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->GlobalPath("decoder.layers.0.fc1"), "decoder.layers.4.fc1");
  EXPECT_EQ(layout->GlobalPath("decoder.layers.01"), "model.layers.01");
  EXPECT_EQ(layout->GlobalPath("decoders"), "decoders");
  EXPECT_EQ(layout->GlobalPath("moe.local_experts.1.fc1"), "moe.local_experts.5.fc1");
}

TEST(LayoutFile, RefusesWhatNoRunHas) {
  const std::pair<const char*, const char*> bad[] = {
      {"[]", "must be an object"},
      {"{\"schema_version\": 2}", "schema_version"},
      {"{\"rank\": -1}", "rank"},
      {"{\"rank\": 1e300}", "must be an integer"},
      {"{\"rank\": 18446744073709551615}", "must be an integer"},
      {"{\"world_size\": 0}", "world_size"},
      {"{\"groups\": []}", "groups must be an object"},
      {"{\"groups\": {\"tp\": 2}}", "must be a list"},
      {"{\"groups\": {\"tp\": [0, 0]}}", "twice"},
      {"{\"rank\": 3, \"groups\": {\"tp\": [0, 1]}}", "lacks rank 3"},
      {"{\"groups\": {\"tp\": [99999999]}}", "from 0 to"},
      {"{\"parameters\": {\"w\": 1}}", "must be an object"},
      {"{\"parameters\": {\"w\": {}}}", "replicated, shard or partial"},
      {"{\"parameters\": {\"w\": {\"kind\": \"shard\", \"parts\": 99999999}}}", "parts"},
      {"{\"parameters\": {\"w\": {\"kind\": \"shard\", \"part\": 2, \"parts\": 2}}}", "2 of 2"},
      {"{\"parameters\": {\"w\": {\"kind\": \"shard\", \"dim\": 3, \"global_shape\": [2]}}}",
       "not one of 1 dimensions"},
      {"{\"parameters\": {\"w\": {\"kind\": \"shard\", \"global_shape\": [9000000000000000, "
       "9000000000000000]}}}",
       "more elements"},
      {"{\"layers\": {\"a\": 1}}", "must be text"},
      {"{\"experts\": {\"a\": -1}}", "from 0 to"},
      {"{\"sequence\": {\"part\": 4, \"parts\": 4}}", "4 of 4"},
      {"{\"rank\": 0", "layout.json"},
  };
  for (const auto& [text, complaint] : bad) {
    const Result<RankLayout> layout = ParseLayout(text, "layout.json");
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_NE(layout.status().message().find(complaint), std::string::npos)
        << text << ": " << layout.status().message();
  }
}

TEST(LayoutFile, RefusesListsAndDepthsThatFillMemory) {
  std::string ranks = "{\"groups\": {\"tp\": [0";
  for (int i = 1; i < 1'100'000; ++i) {
    ranks += "," + std::to_string(i);
  }
  EXPECT_FALSE(ParseLayout(ranks + "]}}", "layout.json").ok());
  EXPECT_FALSE(ParseLayout("{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}",
                           "layout.json")
                   .ok());
}

TEST(LayoutFile, IsAbsentWhereTheFolderHasNone) {
  const test_support::TemporaryFolder folder;
  const Result<std::optional<RankLayout>> none =
      ReadLayout(folder.Write("dump.json", "{}").parent_path());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  const Result<std::optional<RankLayout>> there =
      ReadLayout(folder.Write(kLayoutFileName, kWhole).parent_path());
  ASSERT_TRUE(there.ok());
  EXPECT_TRUE(there->has_value());
}

TEST(GivenLayouts, AreForAllRanksOrForSome) {
  const Result<GivenLayouts> given = GivenLayouts::Parse(
      R"({"npu": {"groups": {"tp": 2, "dp": 2},
                  "parameters": {"*.fc1.weight": {"kind": "shard", "dim": 0, "parts": 2}}},
          "bench": {"ranks": {"0": {"groups": {"tp": [0]}}}}})",
      "layouts.json");
  ASSERT_TRUE(given.ok()) << given.status().message();
  const Result<std::optional<RankLayout>> third = given->Of(true, 3, 4);
  ASSERT_TRUE(third.ok()) << third.status().message();
  ASSERT_TRUE(third->has_value());
  EXPECT_EQ((*third)->GroupOf(Group::kTensor), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*third)->GroupOf(Group::kData), (std::vector<int64_t>{1, 3}));
  EXPECT_NE((*third)->Find("layers.3.fc1.weight"), nullptr);
  EXPECT_TRUE(given->Of(false, 0, 1)->has_value());
  EXPECT_FALSE(given->Of(false, 1, 2)->has_value());
}

TEST(GivenLayouts, NamesWhatDoesNotFit) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"test": {}})", "test is none of"},
      {R"({"npu": {"groups": {"tp": 3}}, "bench": {"groups": {"tp": -1}}})", "groups.tp"},
      {R"({"npu": {"ranks": []}})", "npu.ranks must be an object"},
  };
  for (const auto& [text, complaint] : bad) {
    const Result<GivenLayouts> given = GivenLayouts::Parse(text, "layouts.json");
    ASSERT_FALSE(given.ok()) << text;
    EXPECT_NE(given.status().message().find(complaint), std::string::npos)
        << given.status().message();
  }
  const Result<GivenLayouts> three =
      GivenLayouts::Parse(R"({"npu": {"groups": {"tp": 3}}})", "layouts.json");
  ASSERT_TRUE(three.ok());
  EXPECT_FALSE(three->Of(true, 1, 4).ok());
}

}  // namespace
}  // namespace msprobe::layout
