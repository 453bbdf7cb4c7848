#include "src/checkpoint/distributed/reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/support/temporary_folder.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;
using msprobe::test_support::Slurp;
using msprobe::test_support::Spill;
using msprobe::test_support::TemporaryFolder;
using test_support::ElementsOf;
using test_support::FindParameter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

fs::path Golden() { return fs::path(MSPROBE_TEST_DATA) / "formats" / "dcp"; }
// Written by two ranks of torch 2.6: DTensors cut along rows and columns, whole tensors, optimizer.
fs::path Real() { return fs::path(MSPROBE_TEST_DATA) / "checkpoint" / "distributed"; }

std::vector<std::string> NamesOf(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const Parameter& parameter : checkpoint.parameters) {
    names.push_back(parameter.name);
  }
  return names;
}

std::vector<float> Ramp(size_t count, float step = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i) * step;
  }
  return values;
}

TEST(Distributed, TheGoldenFolderHoldsItsTensors) {
  const Result<Checkpoint> checkpoint = OpenCheckpoint(Golden(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->kind, Kind::kDistributed);
  EXPECT_THAT(NamesOf(*checkpoint), ElementsAre("w", "b"));
  EXPECT_THAT(checkpoint->parameters[0].shape, ElementsAre(4, 3));
  EXPECT_EQ(ElementsOf(checkpoint->parameters[0]), Ramp(12));
  EXPECT_EQ(checkpoint->parameters[1].dtype, DType::kBFloat16);
  EXPECT_EQ(ElementsOf(checkpoint->parameters[1]), std::vector<float>({1, 1}));
}

TEST(Distributed, AFolderOfTorch2IsPutTogetherFromItsChunks) {
  const Result<Checkpoint> checkpoint = OpenCheckpoint(Real(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(NamesOf(*checkpoint),
              ElementsAre("layers.0.weight", "layers.0.col", "norm", "scalar"));
  EXPECT_TRUE(checkpoint->warnings.empty());
  EXPECT_EQ(checkpoint->files.size(), 2U);
  EXPECT_EQ(checkpoint->parameters[0].pieces.size(), 2U);
  EXPECT_EQ(ElementsOf(checkpoint->parameters[0]), Ramp(15));
  EXPECT_EQ(checkpoint->parameters[1].dtype, DType::kBFloat16);
  EXPECT_EQ(ElementsOf(checkpoint->parameters[1]), Ramp(12));
  EXPECT_EQ(ElementsOf(checkpoint->parameters[2]), std::vector<float>({1, 1, 1}));
  EXPECT_TRUE(checkpoint->parameters[3].shape.empty());
  EXPECT_EQ(ElementsOf(checkpoint->parameters[3]), std::vector<float>({2.5F}));
}

TEST(Distributed, ATrackerLeadsToItsFolder) {
  const TemporaryFolder folder;
  fs::copy(Golden(), folder.path() / "iter_0000007");
  Spill(folder.path() / "latest_checkpointed_iteration.txt", "7\n");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->kind, Kind::kDistributed);
  EXPECT_EQ(checkpoint->iteration, 7);
  EXPECT_THAT(NamesOf(*checkpoint), ElementsAre("w", "b"));
}

TEST(Distributed, OptimizerStatesComeAlongWhenAskedFor) {
  Options options;
  options.optimizer = true;
  const Result<Checkpoint> checkpoint = OpenCheckpoint(Real(), options);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Parameter* state =
      FindParameter(checkpoint->parameters, "optim.state.layers.0.weight.exp_avg");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(ElementsOf(*state), Ramp(15, 2));
}

TEST(Distributed, AMissingFileIsNamedAndOnlyItsTensorsAreLost) {
  const TemporaryFolder folder;
  fs::copy(Real(), folder.path(), fs::copy_options::recursive);
  fs::remove(folder / "__0_0.distcp");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(checkpoint->warnings, ElementsAre(HasSubstr("__0_0.distcp: 2 chunks")));
  EXPECT_EQ(checkpoint->parameters[0].status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(checkpoint->parameters[0].pieces.empty());
  EXPECT_EQ(ElementsOf(checkpoint->parameters[2]), std::vector<float>({1, 1, 1}));
}

TEST(Distributed, ATruncatedFileLosesOnlyWhatWasCutOff) {
  const TemporaryFolder folder;
  fs::copy(Real(), folder.path(), fs::copy_options::recursive);
  fs::resize_file(folder / "__1_0.distcp", 4500);
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(ElementsOf(checkpoint->parameters[0]), Ramp(15));
  EXPECT_THAT(checkpoint->parameters[2].status.message(), HasSubstr("truncated"));
}

TEST(Distributed, ChunksThatLeaveTheFolderAreRefused) {
  const TemporaryFolder folder;
  fs::copy(Golden(), folder.path(), fs::copy_options::recursive);
  std::string metadata = Slurp(folder / ".metadata");
  metadata.replace(metadata.find("__1_0.distcp"), 12, "../x0.distcp");
  Spill(folder / ".metadata", metadata);
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(checkpoint->parameters[0].status.message(), HasSubstr("../x0.distcp"));
  EXPECT_TRUE(checkpoint->parameters[1].status.ok());
}

TEST(Distributed, EveryPrefixOfTheMetadataIsAnsweredCleanly) {
  const std::string metadata = Slurp(Real() / ".metadata");
  for (size_t size = 0; size < metadata.size(); ++size) {
    const Result<DistributedMetadata> parsed = ParseDistributedMetadata(
        std::as_bytes(std::span(std::string_view(metadata).substr(0, size))));
    EXPECT_FALSE(parsed.ok()) << size;
  }
}

TEST(Distributed, APickleOfSomethingElseIsNoMetadata) {
  const std::string pickle = "\x80\x02}.";
  const Result<DistributedMetadata> parsed =
      ParseDistributedMetadata(std::as_bytes(std::span(std::string_view(pickle))));
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.status().message(), HasSubstr("state_dict_metadata"));
}

// Three layers of two values each.
Parameter Stack(const std::string& name, const std::vector<float>& values, Shape shape) {
  return MakeParameter(name, msprobe::test_support::ViewOf(values, std::move(shape)), 0);
}

TEST(StackedLayers, BecomeOneParameterPerLayer) {
  const std::vector<float> values = Ramp(6);
  ModelFacts facts;
  facts.layers = 3;
  const std::vector<Parameter> split = SplitStackedLayers(
      {Stack("decoder.layers.mlp.weight", values, {3, 2}), Stack("output.weight", values, {3, 2}),
       Stack("decoder.layers.0.bias", values, {3, 2}),
       Stack("decoder.layers.other.weight", values, {2, 3})},
      facts, 0);
  ASSERT_EQ(split.size(), 6U);
  EXPECT_EQ(split[1].name, "decoder.layers.1.mlp.weight");
  EXPECT_EQ(ElementsOf(split[1]), std::vector<float>({2, 3}));
  EXPECT_EQ(split[3].name, "output.weight");
  EXPECT_EQ(split[4].name, "decoder.layers.0.bias");
  EXPECT_EQ(split[5].name, "decoder.layers.other.weight");
}

TEST(StackedLayers, ExpertsBecomeLocalExperts) {
  const std::vector<float> values = Ramp(12);
  ModelFacts facts;
  facts.layers = 2;
  facts.experts = 3;
  const std::vector<Parameter> split = SplitStackedLayers(
      {Stack("decoder.layers.mlp.experts.experts.linear_fc1.weight", values, {2, 3, 2})}, facts, 0);
  ASSERT_EQ(split.size(), 6U);
  EXPECT_EQ(split[5].name, "decoder.layers.1.mlp.experts.local_experts.2.linear_fc1.weight");
  EXPECT_EQ(ElementsOf(split[5]), std::vector<float>({10, 11}));
}

TEST(StackedLayers, HostileCountsLeaveTheStackAlone) {
  TensorView view;
  view.shape = {int64_t{1} << 40U, 0};
  view.strides = {0, 1};
  ModelFacts facts;
  facts.layers = int64_t{1} << 40U;
  EXPECT_EQ(SplitStackedLayers({MakeParameter("decoder.layers.w", view, 0)}, facts, 0).size(), 1U);
}

TEST(StackedLayers, MakeNoMoreParametersThanFilesCanHold) {
  // 100,000,000 experts of all layers, of which no file has a byte.
  Parameter stack;
  stack.name = "decoder.layers.mlp.experts.experts.w";
  stack.shape = {10'000, 10'000};
  stack.status = BadFormatError("no bytes");
  ModelFacts facts;
  facts.layers = 10'000;
  facts.experts = 10'000;
  const size_t count = SplitStackedLayers({stack}, facts, 0).size();
  EXPECT_GT(count, 10'000U);
  EXPECT_LE(count, 100'000U);
  // One name of 30,000 letters becomes none of 300 MB.
  stack.name.append(30'000, 'x');
  EXPECT_EQ(SplitStackedLayers({stack}, facts, 0).size(), 1U);
}

}  // namespace
}  // namespace msprobe::checkpoint
