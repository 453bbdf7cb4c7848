// What OpenMegatron makes of whole, damaged and odd trees.
#include "src/checkpoint/megatron/reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/checkpoint/megatron/rank_tree.h"

namespace msprobe::checkpoint {
namespace {

using msprobe::test_support::TemporaryFolder;
using test_support::Counting;
using test_support::ElementsOf;
using test_support::FindParameter;
using test_support::RankFileMaker;
using test_support::TestTensor;
using test_support::WriteRank;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

RankFileMaker Sized(int tensor, int pipeline, int expert = 1) {
  RankFileMaker file;
  file.Argument("tensor_model_parallel_size", tensor)
      .Argument("pipeline_model_parallel_size", pipeline)
      .Argument("expert_model_parallel_size", expert);
  return file;
}

// A stage with one layer of one sharded tensor and one that every rank has.
RankFileMaker SmallRank(int tensor, int pipeline, float first = 0) {
  return Sized(tensor, pipeline)
      .Tensor("model", "decoder.layers.0.mlp.linear_fc1.weight", Counting({2, 2}, first))
      .Tensor("model", "decoder.layers.0.pre_mlp_layernorm.weight", Counting({2}));
}

Checkpoint MustOpen(const std::filesystem::path& path, const Options& options = {}) {
  Result<Checkpoint> opened = OpenMegatron(path, options);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return opened.ok() ? *std::move(opened) : Checkpoint();
}

const Parameter& Get(const Checkpoint& checkpoint, std::string_view name) {
  static const Parameter kNone;
  const Parameter* found = FindParameter(checkpoint.parameters, name);
  EXPECT_NE(found, nullptr) << name;
  return found != nullptr ? *found : kNone;
}

TEST(OpenMegatron, MakesNoMoreExpertsThanAFileHolds) {
  const TemporaryFolder folder;
  RankFileMaker file = Sized(1, 1);
  file.Argument("num_experts", 60'000);
  // Without elements: the first tensor is taken apart, the others stay as they are.
  for (const char* layer : {"0", "1", "2"}) {
    file.Tensor("model", std::string("decoder.layers.") + layer + ".mlp.experts.weight2",
                TestTensor{{60'000, 0}, {}});
  }
  WriteRank(folder, "mp_rank_00", file);
  EXPECT_EQ(MustOpen(folder.path()).parameters.size(), 60'002U);
}

TEST(OpenMegatron, ALongNameIsNotRepeatedForThousandsOfExperts) {
  const TemporaryFolder folder;
  RankFileMaker file = Sized(1, 1);
  file.Argument("num_experts", 60'000);
  file.Tensor("model", std::string(30'000, 'x') + ".experts.weight2", Counting({60'000, 1}));
  WriteRank(folder, "mp_rank_00", file);
  EXPECT_EQ(MustOpen(folder.path()).parameters.size(), 1U);
}

TEST(OpenMegatron, RefusesMoreStagesThanAModelHas) {
  const TemporaryFolder folder;
  RankFileMaker file = Sized(1, 1000);
  for (int stage = 0; stage < 1001; ++stage) {
    file.Tensor("model" + std::to_string(stage), "w", Counting({1}));
  }
  WriteRank(folder, "mp_rank_00_000", file);
  Options options;
  options.allow_missing_ranks = true;
  const Result<Checkpoint> opened = OpenMegatron(folder.path(), options);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().message(), HasSubstr("1000 pipeline stages of 1001 virtual stages"));
}

TEST(OpenMegatron, ASharedShapeThatCannotBeCountedIsNoShape) {
  const TemporaryFolder folder;
  for (const char* rank : {"mp_rank_00", "mp_rank_01"}) {
    // 2^30 to the power of three.
    WriteRank(folder, rank,
              Sized(2, 1).Tensor(
                  "model", "norm.weight",
                  {.shape = {1 << 30, 1 << 30, 1 << 30}, .values = {1}, .expanded = true}));
  }
  const Checkpoint checkpoint = MustOpen(folder.path());
  ASSERT_EQ(checkpoint.parameters.size(), 1U);
  EXPECT_FALSE(checkpoint.parameters[0].status.ok());
  EXPECT_TRUE(checkpoint.parameters[0].shape.empty());
}

TEST(OpenMegatron, FollowsTheTrackerToAnIterationAndToARelease) {
  const TemporaryFolder folder;
  WriteRank(folder, "iter_0000020/mp_rank_00", SmallRank(1, 1));
  WriteRank(folder, "release/mp_rank_00", SmallRank(1, 1, 8));
  folder.Write("latest_checkpointed_iteration.txt", " 20\n");
  EXPECT_TRUE(LooksLikeMegatron(folder.path()));
  EXPECT_EQ(MustOpen(folder.path()).iteration, 20);
  folder.Write("latest_checkpointed_iteration.txt", "release");
  const Checkpoint release = MustOpen(folder.path());
  EXPECT_FALSE(release.iteration.has_value());
  EXPECT_EQ(ElementsOf(Get(release, "decoder.layers.0.mlp.linear_fc1.weight"))[0], 8);
  folder.Write("latest_checkpointed_iteration.txt", "30");
  EXPECT_TRUE(LooksLikeMegatron(folder.path()));
  EXPECT_THAT(OpenMegatron(folder.path(), {}).status().hint(), HasSubstr("iter_0000020"));
}

TEST(OpenMegatron, IsNotForFoldersWithoutRanks) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", "x");
  EXPECT_FALSE(LooksLikeMegatron(folder.path()));
  EXPECT_THAT(OpenMegatron(folder.path(), {}).status().message(), HasSubstr("mp_rank_"));
}

TEST(OpenMegatron, NamesAMissingRank) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00", SmallRank(2, 1));
  const Result<Checkpoint> opened = OpenMegatron(folder.path(), {});
  EXPECT_EQ(opened.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(opened.status().message(), HasSubstr("mp_rank_01"));
  EXPECT_THAT(opened.status().hint(), HasSubstr("--allow-missing-ranks"));
}

TEST(OpenMegatron, ComparesTheRestOfAStageWhenAllowed) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00_000", SmallRank(2, 2));
  WriteRank(folder, "mp_rank_01_000", SmallRank(2, 2, 4));
  WriteRank(folder, "mp_rank_01_001", SmallRank(2, 2, 4));
  folder.Write("mp_rank_00_001/model_optim_rng.pt", "no archive at all");
  EXPECT_THAT(OpenMegatron(folder.path(), {}).status().message(), HasSubstr("mp_rank_00_001"));

  Options options;
  options.allow_missing_ranks = true;
  const Checkpoint opened = MustOpen(folder.path(), options);
  ASSERT_EQ(opened.warnings.size(), 1U);
  EXPECT_THAT(opened.warnings[0], HasSubstr("pipeline stage 1: 1 of 2 tensor ranks"));
  EXPECT_THAT(opened.warnings[0], HasSubstr("mp_rank_00_001"));
  EXPECT_EQ(Get(opened, "decoder.layers.0.mlp.linear_fc1.weight").shape, (Shape{4, 2}));
  const Parameter& half = Get(opened, "decoder.layers.1.mlp.linear_fc1.weight");
  EXPECT_EQ(half.shape, (Shape{2, 2}));
  EXPECT_EQ(ElementsOf(half), (Floats{4, 5, 6, 7}));
  EXPECT_THAT(half.notes, ElementsAre(HasSubstr("only the parts of TP ranks 1 of 2")));
  EXPECT_TRUE(Get(opened, "decoder.layers.1.pre_mlp_layernorm.weight").notes.empty());
}

TEST(OpenMegatron, NumbersLayersBehindAMissingStage) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00_000", SmallRank(1, 3).Argument("num_layers", 3));
  WriteRank(folder, "mp_rank_00_002", SmallRank(1, 3).Argument("num_layers", 3));
  Options options;
  options.allow_missing_ranks = true;
  const Checkpoint opened = MustOpen(folder.path(), options);
  EXPECT_THAT(opened.warnings, ElementsAre(HasSubstr("nothing of it is compared")));
  EXPECT_NE(FindParameter(opened.parameters, "decoder.layers.2.mlp.linear_fc1.weight"), nullptr);
  EXPECT_EQ(FindParameter(opened.parameters, "decoder.layers.1.mlp.linear_fc1.weight"), nullptr);
}

// The sizes are numbers in a file of 1 KiB: ranks that are not there are counted, not written down.
TEST(OpenMegatron, NamesTheFirstOfManyMissingRanks) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00_000", SmallRank(20, 3000));
  const std::string message = OpenMegatron(folder.path(), {}).status().message();
  EXPECT_THAT(message, HasSubstr("59999 of 60000 ranks"));
  EXPECT_THAT(message, HasSubstr("mp_rank_08_000 is missing; and 59991 more"));
  EXPECT_LT(message.size(), 1000U);

  Options options;
  options.allow_missing_ranks = true;
  const std::vector<std::string> warnings = MustOpen(folder.path(), options).warnings;
  ASSERT_EQ(warnings.size(), 10U);
  EXPECT_THAT(warnings[0], HasSubstr("19 of 20 tensor ranks"));
  EXPECT_THAT(warnings[0], HasSubstr("mp_rank_08_000 is missing; and 11 more"));
  EXPECT_THAT(warnings[8], HasSubstr("2992 more pipeline stages have ranks"));
}

TEST(OpenMegatron, RefusesMoreRanksThanAnyMachineHas) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00_000", SmallRank(1, 100'001));
  Options options;
  options.allow_missing_ranks = true;
  EXPECT_THAT(OpenMegatron(folder.path(), options).status().message(),
              HasSubstr("100001 ranks side by side"));
}

TEST(OpenMegatron, FailsWhenNoRankIsLeft) {
  const TemporaryFolder folder;
  folder.Write("mp_rank_00/other.pt", "");
  folder.Write("mp_rank_01/model_optim_rng.pt", "");
  Options options;
  options.allow_missing_ranks = true;
  const Status status = OpenMegatron(folder.path(), options).status();
  EXPECT_THAT(status.message(), HasSubstr("mp_rank_00 holds no model_optim_rng.pt"));
}

TEST(OpenMegatron, FailsWithoutAModelInTheFile) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00", Sized(1, 1).Tensor("state_dict", "w", Counting({2})));
  EXPECT_THAT(OpenMegatron(folder.path(), {}).status().message(),
              HasSubstr("no tensors under \"model\""));
}

TEST(OpenMegatron, ADamagedTensorLeavesTheOthersReadable) {
  const TemporaryFolder folder;
  TestTensor cut = Counting({2, 2});
  cut.lacks_bytes = true;
  TestTensor changed = Counting({2});
  changed.wrong_checksum = true;
  WriteRank(folder, "mp_rank_00",
            Sized(2, 1)
                .Tensor("model", "a.linear_qkv.weight", Counting({2, 2}))
                .Tensor("model", "b.bias", Counting({2}))
                .Tensor("model", "c.linear_qkv.weight", Counting({2, 2})));
  WriteRank(folder, "mp_rank_01",
            Sized(2, 1)
                .Tensor("model", "a.linear_qkv.weight", cut)
                .Tensor("model", "b.bias", changed)
                .Tensor("model", "c.linear_qkv.weight", Counting({2, 2}, 4)));
  const Checkpoint opened = MustOpen(folder.path());
  const Parameter& damaged = Get(opened, "a.linear_qkv.weight");
  EXPECT_THAT(damaged.status.message(), HasSubstr("declares"));
  EXPECT_EQ(damaged.shape, (Shape{4, 2}));
  EXPECT_TRUE(damaged.pieces.empty());
  EXPECT_THAT(ElementsOf(Get(opened, "c.linear_qkv.weight")), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(OpenMegatron, AWrongChecksumIsToldOfItsTensor) {
  const TemporaryFolder folder;
  TestTensor changed = Counting({2});
  changed.wrong_checksum = true;
  WriteRank(folder, "mp_rank_00",
            Sized(1, 1).Tensor("model", "a", changed).Tensor("model", "b", Counting({2})));
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(Get(opened, "a").status.message(), HasSubstr("checksum"));
  EXPECT_TRUE(Get(opened, "b").status.ok());
}

TEST(OpenMegatron, ReportsCopiesThatDisagreeWithTheirRanks) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1, 2}) {
    TestTensor copy = Counting({3}, 1);
    copy.values[2] += rank == 2 ? 0.5F : 1e-6F * static_cast<float>(rank);
    WriteRank(folder, "mp_rank_0" + std::to_string(rank),
              Sized(3, 1).Tensor("model", "decoder.final_layernorm.weight", copy));
  }
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(opened.warnings,
              ElementsAre("Inconsistent values for decoder.final_layernorm.weight across TP ranks "
                          "0 and 2"));
  const Parameter& norm = Get(opened, "decoder.final_layernorm.weight");
  EXPECT_THAT(norm.notes, ElementsAre(HasSubstr("2 differ from rank 0")));
  EXPECT_THAT(ElementsOf(norm), ElementsAre(1, 2, 3));
}

TEST(OpenMegatron, JoinsGatesBeforeTheRestUnlessItMustMergeAsThePythonTool) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1}) {
    WriteRank(folder, "mp_rank_0" + std::to_string(rank),
              Sized(2, 1)
                  .Argument("swiglu", true)
                  .Tensor("model", "layers.0.mlp.linear_fc1.weight",
                          Counting({2, 1}, static_cast<float>(10 * rank))));
  }
  EXPECT_THAT(ElementsOf(Get(MustOpen(folder.path()), "layers.0.mlp.linear_fc1.weight")),
              ElementsAre(0, 10, 1, 11));
  Options options;
  options.compatible_merge = true;
  EXPECT_THAT(ElementsOf(Get(MustOpen(folder.path(), options), "layers.0.mlp.linear_fc1.weight")),
              ElementsAre(0, 1, 10, 11));
}

TEST(OpenMegatron, CountsUnevenStagesUnlessItMustMergeAsThePythonTool) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00_000", Sized(1, 2).Tensor("model", "layers.0.w", Counting({1})));
  WriteRank(folder, "mp_rank_00_001",
            Sized(1, 2)
                .Tensor("model", "layers.0.w", Counting({1}, 1))
                .Tensor("model", "layers.1.w", Counting({1}, 2)));
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(ElementsOf(Get(opened, "layers.2.w")), ElementsAre(2));
  EXPECT_EQ(opened.parameters.size(), 3U);
}

TEST(OpenMegatron, LaterStagesReplaceWhatTheyHoldAgain) {
  const TemporaryFolder folder;
  for (const int stage : {0, 1}) {
    WriteRank(folder, "mp_rank_00_00" + std::to_string(stage),
              Sized(1, 2)
                  .Tensor("model", "layers.0.w", Counting({1}))
                  .Tensor("model", "embedding.word_embeddings.weight",
                          Counting({2, 1}, static_cast<float>(stage))));
  }
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(ElementsOf(Get(opened, "embedding.word_embeddings.weight")), ElementsAre(1, 2));
}

TEST(OpenMegatron, TakesSizesFromFolderNamesWithoutArguments) {
  const TemporaryFolder folder;
  const auto rank = [](float first) {
    return RankFileMaker()
        .Tensor("model", "layers.0.linear_qkv.weight", Counting({1, 1}, first))
        .Tensor("model", "layers.0.mlp.experts.local_experts.0.linear_fc2.weight",
                Counting({1, 1}, first));
  };
  WriteRank(folder, "mp_rank_00_000", rank(0));
  WriteRank(folder, "mp_rank_01_000", rank(1));
  WriteRank(folder, "mp_rank_00_001", rank(2));
  WriteRank(folder, "mp_rank_01_001", rank(3));
  const Checkpoint stages = MustOpen(folder.path());
  EXPECT_THAT(ElementsOf(Get(stages, "layers.1.linear_qkv.weight")), ElementsAre(2, 3));

  // The last layer's norm in every file: these are expert ranks.
  for (const char* name :
       {"mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"}) {
    WriteRank(folder, name, rank(0).Tensor("model", "final_layernorm.weight", Counting({1})));
  }
  const Checkpoint experts = MustOpen(folder.path());
  Get(experts, "layers.0.mlp.experts.local_experts.1.linear_fc2.weight");
  EXPECT_EQ(FindParameter(experts.parameters, "layers.1.linear_qkv.weight"), nullptr);
}

TEST(OpenMegatron, RefusesSizesThatNoMachineHas) {
  const TemporaryFolder folder;
  for (const int size : {0, -1, 2'000'000'000, 20'000}) {
    WriteRank(folder, "mp_rank_00", SmallRank(size, 20'000));
    EXPECT_EQ(OpenMegatron(folder.path(), {}).status().code(), StatusCode::kBadFormat) << size;
  }
}

TEST(OpenMegatron, SaysWhichFoldersItDoesNotRead) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00", SmallRank(1, 1));
  WriteRank(folder, "mp_rank_01", SmallRank(1, 1));
  EXPECT_THAT(MustOpen(folder.path()).warnings, ElementsAre(HasSubstr("mp_rank_01 is not read")));
}

TEST(OpenMegatron, KeepsNamesWithSlashesAndTensorsWithoutAxes) {
  const TemporaryFolder folder;
  for (const char* name : {"mp_rank_00", "mp_rank_01"}) {
    WriteRank(folder, name,
              Sized(2, 1)
                  .Tensor("model", "a/b/0", Counting({2}))
                  .Tensor("model", "linear_qkv.scale", Counting({}, 3)));
  }
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_EQ(Get(opened, "a/b/0").shape, Shape{2});
  EXPECT_THAT(ElementsOf(Get(opened, "linear_qkv.scale")), ElementsAre(3));
}

TEST(OpenMegatron, ShapesThatDoNotFitAreAMatterOfTheirParameter) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00",
            Sized(2, 1).Tensor("model", "linear_qkv.weight", Counting({2, 2})));
  WriteRank(folder, "mp_rank_01",
            Sized(2, 1).Tensor("model", "linear_qkv.weight", Counting({2, 3})));
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(Get(opened, "linear_qkv.weight").status.message(), HasSubstr("cannot be joined"));
}

TEST(OpenMegatron, DoesNotReadTensorsThatRepeatTheirBytesWithoutEnd) {
  const TemporaryFolder folder;
  const TestTensor endless{
      .shape = {1 << 22, 1 << 22}, .values = {1}, .is_parameter = false, .expanded = true};
  for (const char* name : {"mp_rank_00", "mp_rank_01"}) {
    WriteRank(folder, name,
              Sized(2, 1).Tensor("model", "norm", endless).Tensor("model", "w", Counting({1})));
  }
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_THAT(Get(opened, "norm").status.message(), HasSubstr("repeated bytes"));
  EXPECT_TRUE(Get(opened, "w").status.ok());
}

TEST(OpenMegatron, LeavesOptimizerStatesOutUnlessAskedFor) {
  const TemporaryFolder folder;
  TestTensor state = Counting({2});
  state.wrong_checksum = true;  // nobody looks
  for (const char* name : {"mp_rank_00", "mp_rank_01"}) {
    WriteRank(folder, name,
              Sized(2, 1).Tensor("model", "w", Counting({1})).Tensor("optimizer", "m", state));
  }
  EXPECT_EQ(MustOpen(folder.path()).parameters.size(), 1U);
  Options options;
  options.optimizer = true;
  const Checkpoint opened = MustOpen(folder.path(), options);
  EXPECT_THAT(ElementsOf(Get(opened, "optimizer.mp_rank_01.m")), ElementsAre(0, 1));
  EXPECT_EQ(opened.parameters.size(), 3U);
}

TEST(OpenMegatron, StopsAtTheFirstGapBetweenVirtualStages) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00",
            Sized(1, 1)
                .Tensor("model0", "layers.0.w", Counting({1}))
                .Tensor("model1", "layers.0.w", Counting({1}, 1))
                .Tensor("model3", "layers.0.w", Counting({1}, 3)));
  const Checkpoint opened = MustOpen(folder.path());
  EXPECT_EQ(opened.parameters.size(), 2U);
  EXPECT_THAT(ElementsOf(Get(opened, "layers.1.w")), ElementsAre(1));
}

TEST(OpenMegatron, TellsWhatTheArgumentsSayOfTheModel) {
  const TemporaryFolder folder;
  WriteRank(folder, "mp_rank_00",
            SmallRank(1, 1)
                .Argument("num_layers", 1)
                .Argument("num_attention_heads", 8)
                .Argument("group_query_attention", true)
                .Argument("num_query_groups", 2)
                .Argument("hidden_size", 64)
                .Argument("kv_channels", std::monostate())
                .Argument("num_experts", std::monostate())
                .Argument("vocab_size", 1000)
                .Argument("padded_vocab_size", 1024)
                .Argument("swiglu", true));
  const ModelFacts facts = MustOpen(folder.path()).facts;
  EXPECT_EQ(facts.layers, 1);
  EXPECT_EQ(facts.attention_heads, 8);
  EXPECT_EQ(facts.query_groups, 2);
  EXPECT_EQ(facts.head_size, 8);
  EXPECT_EQ(facts.hidden_size, 64);
  EXPECT_FALSE(facts.experts.has_value());
  EXPECT_EQ(facts.vocabulary, 1000);
  EXPECT_EQ(facts.gated, true);
}

}  // namespace
}  // namespace msprobe::checkpoint
