#include "src/checkpoint/common/state_dict.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.h"
#include "src/io/contents.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/io/test_mindspore.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::checkpoint {
namespace {

using io::test_support::MindSporeValue;
using msprobe::test_support::TemporaryFolder;
using test_support::ElementsOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Paths = std::vector<std::vector<std::string>>;

std::vector<std::string> Name(const Paths& paths, bool optimizer = false,
                              std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  return NameParameters(paths, optimizer, warnings != nullptr ? *warnings : ignored);
}

TEST(StateDict, QuantisedTensorsTakeNoMoreMemoryThanTheFilesAllow) {
  const std::byte element{7};
  auto quantization = std::make_shared<Quantization>();
  quantization->dtype = "quint8";
  quantization->scales = {0.5};
  quantization->zero_points = {7};
  NamedTensor tensor;
  tensor.view.dtype = DType::kUInt8;
  tensor.view.shape = {int64_t{1} << 20U};
  tensor.view.strides = {0};
  tensor.view.data = &element;
  tensor.view.extent_bytes = 1;
  tensor.quantization = quantization;
  // One budget for all of a checkpoint.
  io::ReadBudget memory = io::ReadBudget::ForMemory(0);
  int taken = 0;
  while (taken < 1000 && MakeStateEntry(tensor, 0, memory).parameter.status.ok()) {
    ++taken;
  }
  EXPECT_GT(taken, 10);
  EXPECT_LE(taken, 64);
  EXPECT_THAT(MakeStateEntry(tensor, 0, memory).parameter.status.message(),
              HasSubstr("too many repeated bytes"));
}

TEST(StateDict, NamesAreKeysJoinedByDots) {
  EXPECT_THAT(Name({{"layers.0.weight"}, {"norm", "bias"}}),
              ElementsAre("layers.0.weight", "norm.bias"));
}

TEST(StateDict, TheLevelThatHoldsTheModelIsNoPartOfTheNames) {
  EXPECT_THAT(Name({{"model", "w"}, {"optimizer", "state", "0", "exp_avg"}}), ElementsAre("w", ""));
  EXPECT_THAT(Name({{"state_dict", "w"}}), ElementsAre("w"));
  EXPECT_THAT(Name({{"app", "model", "w"}, {"app", "optim", "state", "w", "exp_avg"}}),
              ElementsAre("w", ""));
  EXPECT_THAT(Name({{"model", "model.layers.0.w"}}), ElementsAre("model.layers.0.w"));
  EXPECT_THAT(Name({{"model.layers.0.w"}}), ElementsAre("model.layers.0.w"));
}

TEST(StateDict, ALevelBesideOtherLayersIsPartOfTheModel) {
  EXPECT_THAT(Name({{"model", "module", "w"}, {"model", "head", "w"}}),
              ElementsAre("module.w", "head.w"));
}

TEST(StateDict, WhatLiesBesideTheModelIsTold) {
  std::vector<std::string> warnings;
  EXPECT_THAT(Name({{"model", "w"}, {"ema", "w"}}, false, &warnings), ElementsAre("w", ""));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("ema.w")));
}

TEST(StateDict, OptimizerStatesKeepAllTheirKeys) {
  EXPECT_THAT(Name({{"model", "w"}, {"optimizer", "state", "0", "exp_avg"}}, true),
              ElementsAre("w", "optimizer.state.0.exp_avg"));
}

TEST(StateDict, StagesOfVirtualPipelinesKeepTheirNumber) {
  EXPECT_THAT(Name({{"model0", "layers.0.w"}, {"model1", "layers.0.w"}, {"rng_state", "0"}}),
              ElementsAre("model0.layers.0.w", "model1.layers.0.w", ""));
}

TEST(StateDict, ModulesSavedAsAWholeHaveTheNamesOfTheirStateDict) {
  EXPECT_THAT(Name({{"_modules", "0", "_parameters", "weight"}}), ElementsAre("0.weight"));
}

TEST(StateDict, ANameThatOccursAgainIsLeftOutAndTold) {
  std::vector<std::string> warnings;
  EXPECT_THAT(Name({{"a", "b"}, {"a.b"}}, false, &warnings), ElementsAre("a.b", ""));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("a.b")));
}

TEST(StateDict, ABareTensorHasAName) { EXPECT_THAT(Name({{}}), ElementsAre("tensor")); }

TEST(OptimizerStates, AreToldByName) {
  for (const char* name :
       {"optimizer.state.exp_avg.decoder.w", "chained_0.optimizer.param", "optim.state.w.exp_avg",
        "moments.net.weight", "adam_m.net.weight", "rng_state/shard_0.0_1.1", "global_step",
        "beta1_power", "decoder.layers.0.mlp.linear_fc1._extra_state",
        "x._extra_state/shard_0_4"}) {
    EXPECT_TRUE(IsOptimizerState(name)) << name;
  }
  for (const char* name : {"decoder.layers.0.mlp.linear_fc1.weight", "model.embed_tokens.weight",
                           "moments_head.weight", "step_embedding.weight", "net.optimist.weight"}) {
    EXPECT_FALSE(IsOptimizerState(name)) << name;
  }
}

TEST(TensorFileCheckpoint, SlicesBecomePiecesWithoutACopy) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 30; ++i) {
    content.push_back(static_cast<char>(i));
  }
  // Cut inside of rows, inside of planes, and one by one.
  for (const std::vector<size_t>& cuts : std::vector<std::vector<size_t>>{
           {0, 7, 30}, {0, 10, 20, 30}, {0, 1, 2, 29, 30}, {0, 5, 11, 13, 28, 30}}) {
    std::string bytes;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      bytes +=
          MindSporeValue("w", {3, 2, 5}, "Int8", content.substr(cuts[i], cuts[i + 1] - cuts[i]));
    }
    const auto path = folder.Write("a.ckpt", bytes + MindSporeValue("moments.w", {1}, "Int8", "x"));
    const Result<Checkpoint> checkpoint = OpenCheckpoint(path, Options());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    ASSERT_EQ(checkpoint->parameters.size(), 1U);
    const std::vector<float> elements = ElementsOf(checkpoint->parameters[0]);
    ASSERT_EQ(elements.size(), 30U);
    for (size_t i = 0; i < elements.size(); ++i) {
      EXPECT_EQ(elements[i], static_cast<float>(i));
    }
  }
}

TEST(TensorFileCheckpoint, NpzAndBareTensorsAreCheckpoints) {
  const std::string formats = std::string(MSPROBE_TEST_DATA) + "/formats/";
  const Result<Checkpoint> bare = OpenCheckpoint(formats + "pt/dtype_float32.pt", Options());
  ASSERT_TRUE(bare.ok()) << bare.status().message();
  EXPECT_EQ(bare->kind, Kind::kTensorFile);
  EXPECT_EQ(bare->parameters.at(0).name, "tensor");
}

TEST(OpenCheckpoint, AFolderWithOneTensorFileIsThatFile) {
  const TemporaryFolder folder;
  folder.Write("net.ckpt", MindSporeValue("w", {1}, "Int8", "x"));
  folder.Write("log.txt", "nothing");
  const Result<Checkpoint> item = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(item.ok()) << item.status().message();
  EXPECT_EQ(item->path.filename(), "net.ckpt");
  folder.Write("other.ckpt", MindSporeValue("w", {1}, "Int8", "x"));
  const Result<Checkpoint> two = OpenCheckpoint(folder.path(), Options());
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(two.status().message(), HasSubstr("looked for"));
  EXPECT_THAT(two.status().message(), HasSubstr("log.txt, net.ckpt, other.ckpt"));
}

TEST(OpenCheckpoint, AMissingPathIsNamed) {
  const Result<Checkpoint> checkpoint = OpenCheckpoint("/no/such/folder", Options());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(checkpoint.status().message(), HasSubstr("/no/such/folder"));
}

TEST(OpenCheckpoint, AFileWithoutParametersIsAnErrorWithAHint) {
  const TemporaryFolder folder;
  const auto path = folder.Write("a.ckpt", MindSporeValue("moments.w", {1}, "Int8", "x"));
  const Result<Checkpoint> checkpoint = OpenCheckpoint(path, Options());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(checkpoint.status().hint(), HasSubstr("--optimizer"));
}

}  // namespace
}  // namespace msprobe::checkpoint
