#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/checkpoint/megatron/layout.h"
#include "tests/unit/checkpoint/megatron/rank_tree.h"

namespace msprobe::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Arguments = std::vector<std::pair<std::string, test_support::TestArgument>>;

struct Outcome {
  std::vector<int64_t> first_layers;
  std::vector<std::string> warnings;
};

Outcome Number(std::vector<std::optional<int64_t>> counts, int64_t stages,
               const Arguments& arguments) {
  const msprobe::test_support::TemporaryFolder folder;
  test_support::RankFileMaker maker;
  for (const auto& [name, value] : arguments) {
    maker.Argument(name, value);
  }
  maker.Tensor("model", "w", test_support::Counting({1}));
  const Result<TensorFile> file = TensorFile::Open(folder.Write("a.pt", maker.Bytes()));
  EXPECT_TRUE(file.ok()) << file.status().message();
  Outcome outcome;
  outcome.first_layers =
      FirstLayers({std::move(counts), stages}, MegatronArgs(*file), outcome.warnings);
  return outcome;
}

TEST(FirstLayers, CountsWhatTheStagesHold) {
  const Outcome outcome = Number({2, 3, 1, 2}, 2, {{"num_layers", 8}});
  EXPECT_THAT(outcome.first_layers, ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(outcome.warnings, IsEmpty());
}

TEST(FirstLayers, AStageMayHoldEmbeddingsAlone) {
  EXPECT_THAT(Number({0, 4, 4}, 3, {{"num_layers", 8}}).first_layers, ElementsAre(0, 0, 4));
}

TEST(FirstLayers, SpreadsLayersEvenlyWhereSomeHaveNoParameters) {
  EXPECT_THAT(Number({1, 2}, 2, {{"num_layers", 4}}).first_layers, ElementsAre(0, 2));
}

TEST(FirstLayers, KnowsTheOwnNumbersOfTheFirstAndLastStage) {
  const Arguments arguments = {{"num_layers", 9},
                               {"num_layers_in_first_pipeline_stage", 1},
                               {"decoder_last_pipeline_num_layers", 2}};
  EXPECT_THAT(Number({1, std::nullopt, 3, 2}, 4, arguments).first_layers, ElementsAre(0, 1, 4, 7));
}

TEST(FirstLayers, KnowsAListOfLayers) {
  EXPECT_THAT(Number({2, std::nullopt, 1}, 3, {{"num_layer_list", "2,4,1"}}).first_layers,
              ElementsAre(0, 2, 6));
}

TEST(FirstLayers, SaysWhenArgumentsAndFilesContradictEachOther) {
  const Outcome outcome = Number({3, 2}, 2, {{"num_layers", 4}});
  EXPECT_THAT(outcome.first_layers, ElementsAre(0, 3));
  EXPECT_THAT(outcome.warnings, ElementsAre(HasSubstr("args record 4 layers, the files hold 5")));
}

TEST(FirstLayers, TakesTheLongestStageForAMissingOne) {
  const Outcome outcome = Number({1, std::nullopt, 2}, 3, {});
  EXPECT_THAT(outcome.first_layers, ElementsAre(0, 1, 3));
  EXPECT_THAT(outcome.warnings, ElementsAre(HasSubstr("2 are assumed")));
}

TEST(FirstLayers, SurvivesHostileArguments) {
  for (const int value : {-1, 0, 2'000'000'000}) {
    EXPECT_THAT(Number({1, 1}, 2,
                       {{"num_layers", value},
                        {"num_layers_in_first_pipeline_stage", -value},
                        {"num_layers_in_last_pipeline_stage", value}})
                    .first_layers,
                ElementsAre(0, 1));
  }
}

TEST(FirstLayers, NumbersThatDoNotFitIn64BitsTogetherAreNoCounts) {
  const std::string huge = "9223372036854775807";
  EXPECT_THAT(
      Number({1, std::nullopt, std::nullopt}, 3, {{"num_layer_list", "1," + huge + "," + huge}})
          .first_layers,
      ElementsAre(0, 1, 2));
  EXPECT_THAT(Number({1, std::nullopt, std::nullopt}, 3,
                     {{"num_layers", 4},
                      {"num_layers_in_first_pipeline_stage", INT64_MAX},
                      {"num_layers_in_last_pipeline_stage", INT64_MAX}})
                  .first_layers,
              ElementsAre(0, 1, 2));
}

TEST(EvenFirstLayers, MeasuresTheFirstStageOnly) {
  EXPECT_THAT(EvenFirstLayers({{2, 3, 1, 2}, 2}), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(EvenFirstLayers({{0, 3}, 2}), ElementsAre(0, 1));
}

}  // namespace
}  // namespace msprobe::checkpoint
