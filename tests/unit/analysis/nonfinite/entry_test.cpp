#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/nonfinite/rank_dump.h"
#include "src/analysis/nonfinite/search.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::nonfinite {
namespace {

constexpr double kNoThreshold = std::numeric_limits<double>::infinity();

EntryFacts Facts(std::string_view text, double threshold = kNoThreshold) {
  const Result<EntryFacts> facts = ReadEntryFacts(text, threshold);
  EXPECT_TRUE(facts.ok()) << facts.status().message();
  return facts.ok() ? *facts : EntryFacts();
}

// The one communication of a dump as it is kept; the file is that of PyTorch unless told otherwise.
struct KeptCall {
  BadValues data = 0;
  BadValues output = 0;
  std::vector<EndpointValues> endpoints;
};
KeptCall Kept(std::string_view name, std::string_view text,
              std::string_view framework = "pytorch") {
  const test_support::TemporaryFolder folder;
  folder.Write("dump.json", "{\"framework\": \"" + std::string(framework) + "\", \"data\": {\"" +
                                std::string(name) + "\": " + std::string(text) + "}}");
  const Result<RankDump> rank = LoadRank(0, folder.path(), LoadOptions());
  EXPECT_TRUE(rank.ok() && rank->operators.size() == 1);
  return {rank->operators[0].input, rank->operators[0].output, rank->endpoints};
}

std::optional<LevelFinding> Judged(std::string_view name, std::string_view text) {
  const Result<dump::EntryTree> tree = dump::ParseEntry(text);
  EXPECT_TRUE(tree.ok());
  return JudgeEntry(name, *tree);
}

TEST(BadValues, ReadsEverySpelling) {
  EXPECT_EQ(Facts(R"({"output": [{"Max": NaN, "Min": NaN}]})").output, kNan);
  EXPECT_EQ(Facts(R"({"output": [{"Max": "nan\t", "Min": "NAN"}]})").output, kNan);
  EXPECT_EQ(Facts(R"({"output": [{"Max": Infinity, "Min": "-inf"}]})").output,
            kPositiveInfinity | kNegativeInfinity);
  EXPECT_EQ(Facts(R"({"output": [{"Max": 1, "Min": 0, "Mean": NaN, "Norm": Infinity}]})").output,
            0);
}

TEST(BadValues, TakesIsNanForTheResult) {
  EXPECT_EQ(Facts(R"({"output": [{"dtype": "torch.float32"}], "is_nan": 1})").output, kNan);
  for (const char* good : {"0", "null", "true", "[1]", R"({"is_nan": 1})"}) {
    const std::string entry = std::string(R"({"output": [], "is_nan": )") + good + "}";
    EXPECT_EQ(Facts(entry).output, 0) << good;
  }
}

TEST(BadValues, LooksIntoNestedListsAndMaps) {
  EXPECT_EQ(Facts(R"({"input_args": [[{"a": {"Max": NaN, "Min": 0}}]]})").first_input, kNan);
  EXPECT_EQ(Facts(R"({"input_kwargs": {"x": [{"Max": NaN, "Min": 0}]}})").other_inputs, kNan);
  EXPECT_EQ(Facts(R"({"output": {"values": {"Max": NaN, "Min": 0}}})").output, kNan);
}

TEST(BadValues, TellsTheFirstArgumentFromTheOthers) {
  const EntryFacts facts =
      Facts(R"({"input_args": [{"Max": 1, "Min": 0}, {"Max": NaN, "Min": 0}]})");
  EXPECT_EQ(facts.first_input, 0);
  EXPECT_EQ(facts.other_inputs, kNan);
}

TEST(BadValues, OutIsABufferAndNoInput) {
  EXPECT_EQ(Facts(R"({"input_kwargs": {"out": {"Max": NaN, "Min": 0}}})").other_inputs, 0);
}

TEST(BadValues, BadParametersAreInputsAndTold) {
  const EntryFacts facts = Facts(R"({"parameters": {"weight": {"Max": NaN, "Min": NaN}}})");
  EXPECT_EQ(facts.other_inputs, kNan);
  EXPECT_TRUE(facts.has_bad_parameters);
}

TEST(BadValues, ConstantsAreKnownApart) {
  const EntryFacts facts = Facts(R"({"input_args": [{"type": "float", "value": -Infinity}]})");
  EXPECT_EQ(facts.constants, kNegativeInfinity);
  EXPECT_EQ(facts.first_input, 0);
}

TEST(BadValues, AThresholdMakesLargeValuesBad) {
  EXPECT_EQ(Facts(R"({"output": [{"Max": 1000, "Min": 0}]})", 999).output, kTooLarge);
  EXPECT_EQ(Facts(R"({"output": [{"Max": 10, "Min": -999}]})", 999).output, 0);
}

TEST(BadValues, ADamagedEntryIsAnError) {
  EXPECT_FALSE(ReadEntryFacts(R"({"output": [nope]})", kNoThreshold).ok());
}

TEST(Communication, BuffersAreNoData) {
  const char* entry = R"({"input_args": [{"Max": NaN, "Min": NaN}, {"Max": 1, "Min": 0}]})";
  EXPECT_EQ(Kept("Distributed.all_gather_into_tensor.0.forward", entry).data, 0);
  EXPECT_EQ(Kept("Distributed.all_reduce.0.forward", entry).data, kNan);
  EXPECT_EQ(Kept("Distributed.broadcast.0.forward", entry).data, kNan);
  EXPECT_EQ(Kept("Distributed.recv.0.forward", entry).data, 0);
  // mindspore.communication returns its results; mindspore.mint has PyTorch's signatures.
  for (const auto& [name, bad] :
       {std::pair("Distributed", kNan), std::pair("MintDistributed", BadValues{0})}) {
    EXPECT_EQ(
        Kept(name + std::string(".all_gather_into_tensor.0.forward"), entry, "mindspore").data,
        bad);
  }
}

TEST(Communication, ObjectListsAreBuffersToo) {
  const char* entry = R"({"input_args": [[{"Max": NaN, "Min": NaN}], [{"Max": 1, "Min": 0}]]})";
  EXPECT_EQ(Kept("Distributed.all_gather_object.0.forward", entry).data, 0);
  EXPECT_EQ(Kept("Distributed.scatter_object_list.0.forward", entry).data, 0);
  EXPECT_EQ(Kept("Distributed.gather_object.0.forward", entry).data, kNan);
}

TEST(Communication, TheOnlyTensorOfACollectiveIsItsData) {
  EXPECT_EQ(
      Kept("Distributed.all_gather.0.forward", R"({"input_args": [{"Max": NaN, "Min": 0}]})").data,
      kNan);
}

TEST(Communication, ABatchHasTheValuesOfEachOfItsMessages) {
  const KeptCall call =
      Kept("Distributed.batch_isend_irecv.0.forward",
           R"({"input_args": [[{"op": "isend", "peer": 3, "tensor": {"Max": NaN, "Min": 0}},
                          {"op": "irecv", "peer": 1, "tensor": {"Max": NaN, "Min": 0}}]],
          "output": [[{"op": "isend", "peer": 3, "tensor": {"Max": NaN, "Min": 0}},
                      {"op": "irecv", "peer": 1, "tensor": {"Max": 1, "Min": 0}}]]})");
  EXPECT_EQ(call.data, kNan);
  ASSERT_EQ(call.endpoints.size(), 2u);
  EXPECT_EQ(call.endpoints[0].data, kNan);
  EXPECT_EQ(call.endpoints[0].output, kNan);
  EXPECT_EQ(call.endpoints[1].data, 0);
  EXPECT_EQ(call.endpoints[1].output, 0);
}

TEST(Levels, FollowInputsAndOutputs) {
  const auto level = [](const char* text) { return Judged("Torch.x.0.forward", text)->level; };
  EXPECT_EQ(level(R"({"input_args": [{"Max": 1, "Min": 0}], "output": [{"Max": NaN, "Min": 0}]})"),
            Level::kCritical);
  EXPECT_EQ(
      level(R"({"input_args": [{"Max": NaN, "Min": 0}], "output": [{"Max": NaN, "Min": 0}]})"),
      Level::kHigh);
  EXPECT_EQ(level(R"({"input_args": [{"Max": NaN, "Min": 0}], "output": [{"Max": 1, "Min": 0}]})"),
            Level::kMedium);
}

TEST(Levels, AGrowingNormIsAMutation) {
  const auto finding = Judged("Torch.x.0.forward",
                              R"({"input_args": [{"type": "torch.Tensor", "Norm": 1.0}],
                                  "output": [{"type": "torch.Tensor", "Norm": 101.0}]})");
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->scene, Scene::kMutation);
  EXPECT_FALSE(Judged("Torch.x.0.forward",
                      R"({"input_args": [{"type": "torch.Tensor", "Norm": 1.0}],
                          "output": [{"type": "torch.Tensor", "Norm": 100.0}]})"));
}

TEST(Levels, BuffersMayHoldAnything) {
  EXPECT_FALSE(
      Judged("Torch.empty.0.forward", R"({"input_args": [], "output": [{"Max": NaN, "Min": 0}]})"));
  EXPECT_FALSE(
      Judged("Distributed.recv.0.forward",
             R"({"input_args": [{"Max": NaN, "Min": 0}], "output": [{"Max": 1, "Min": 0}]})"));
}

constexpr const char* kBad =
    R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": NaN, "Min": NaN, "Mean": NaN, "Norm": NaN})";
constexpr const char* kGood =
    R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0})";
constexpr const char* kAll = R"({"type": "slice", "value": [null, null, null]})";
constexpr const char* kPart = R"({"type": "slice", "value": [1, null, null]})";
constexpr const char* kFirst = R"({"type": "int", "value": 0})";

// Of self[index] = value.
std::vector<Operator> SetByIndexOf(const std::string& self, const std::string& index,
                                   const std::string& value) {
  const test_support::TemporaryFolder folder;
  folder.Write(
      "dump.json",
      R"({"task": "statistics", "data": {"Tensor.__setitem__.0.forward": {"input_args": [)" + self +
          ", " + index + ", " + value + R"(], "input_kwargs": {}, "output": [null]}}})");
  Result<RankDump> rank = LoadRank(0, folder.path(), LoadOptions());
  return rank.ok() ? rank->operators : std::vector<Operator>();
}

TEST(SetByIndex, AConstantIsItsResult) {
  for (const auto& [text, bad] :
       {std::pair("Infinity", kPositiveInfinity), std::pair("-Infinity", kNegativeInfinity),
        std::pair("NaN", kNan)}) {
    const std::vector<Operator> found =
        SetByIndexOf(kGood, std::string("[") + kFirst + ", " + kPart + "]",
                     std::string(R"({"type": "float", "value": )") + text + "}");
    ASSERT_EQ(found.size(), 1U) << text;
    EXPECT_EQ(found[0].input, 0);
    EXPECT_EQ(found[0].output, bad);
    EXPECT_EQ(found[0].behaviour, Behaviour::kFill);
  }
}

TEST(SetByIndex, WhatIsWrittenAsAWholeForgetsWhatWasThere) {
  for (const std::string& index : {std::string(kAll), std::string("[") + kAll + ", " + kAll + "]",
                                   std::string(R"({"type": "ellipsis", "value": "Ellipsis"})")}) {
    const std::vector<Operator> found = SetByIndexOf(kBad, index, kGood);
    ASSERT_EQ(found.size(), 1U) << index;
    EXPECT_EQ(found[0].input | found[0].output, 0);
  }
  for (const std::string& index :
       {std::string(kPart), std::string(kFirst), std::string("[") + kAll + ", " + kFirst + "]"}) {
    const std::vector<Operator> found = SetByIndexOf(kBad, index, kGood);
    ASSERT_EQ(found.size(), 1U) << index;
    EXPECT_EQ(found[0].input, kNan);
    EXPECT_EQ(found[0].output, 0);
  }
}

TEST(SetByIndex, ATensorBringsItsValues) {
  const std::vector<Operator> found = SetByIndexOf(kGood, kAll, kBad);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].input, kNan);
  EXPECT_EQ(found[0].output, kNan);
}

}  // namespace
}  // namespace msprobe::analysis::nonfinite
