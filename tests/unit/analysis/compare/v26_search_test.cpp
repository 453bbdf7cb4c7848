// The first difference over ranks, training against inference, and tensors changed before they are
// compared.
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/first_difference.h"
#include "src/analysis/compare/tensor_changes.h"
#include "src/analysis/compare/training_inference.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::SideFromEntries;
using test_support::TemporaryFolder;
using test_support::TensorText;
using ::testing::ElementsAre;

RankCall Compute(std::string name, bool is_same = true) {
  RankCall call;
  call.name = std::move(name);
  call.is_same = is_same;
  call.data_info = "{}";
  call.stack_info = "null";
  return call;
}

RankCall Gather(std::string name, bool is_same = true) {
  RankCall call = Compute(std::move(name), is_same);
  call.communication.emplace().api = "all_gather";
  return call;
}

RankCall Message(std::string name, std::string_view api, int64_t peer) {
  RankCall call = Compute(std::move(name));
  call.communication = dump::DescribeCommunication(
      api, {},
      [peer](std::string_view argument) {
        return argument == "1" ? std::optional(peer) : std::nullopt;
      },
      dump::MatchRules::kPythonDifference);
  return call;
}

// "0: Torch.a.0.forward" per finding.
std::vector<std::string> Found(const std::vector<RankCalls>& ranks) {
  std::vector<std::string> found;
  for (const FirstDifference& difference : FindFirstDifferences(ranks)) {
    const RankCalls& rank = ranks[difference.rank];
    found.push_back(std::to_string(rank.rank) + ": " + rank.calls[difference.call].name);
  }
  return found;
}

TEST(FindFirstDifferences, PrefersWhatDiffersBeforeAnyCommunicationInEveryRank) {
  const std::vector<RankCalls> ranks = {
      {0, {Compute("a"), Compute("b", false), Gather("g", false)}},
      {1, {Compute("a", false), Gather("g", false)}},
      {2, {Compute("a"), Gather("g", false)}}};
  EXPECT_THAT(Found(ranks), ElementsAre("0: b", "1: a"));
}

TEST(FindFirstDifferences, TakesTheEarliestBetweenCommunications) {
  const std::vector<RankCalls> ranks = {
      {0, {Gather("g0"), Compute("a"), Compute("b", false), Gather("g1", false), Gather("g2")}},
      {3, {Gather("g0"), Compute("c", false), Gather("g1"), Gather("g2")}}};
  EXPECT_THAT(Found(ranks), ElementsAre("3: c"));
}

// What goes before a receive is as far on as what goes before its send.
TEST(FindFirstDifferences, CountsAMessageWhereItsSenderDoes) {
  const auto found = [](const char* send, const char* receive) {
    return Found({{0, {Gather("g0"), Gather("g1"), Compute("b", false), Message("s", send, 1)}},
                  {1, {Gather("g0"), Compute("c", false), Message("r", receive, 0)}}});
  };
  EXPECT_THAT(found("send", "recv"), ElementsAre("0: b", "1: c"));
  EXPECT_THAT(found("isend", "irecv"), ElementsAre("0: b", "1: c"));
  EXPECT_THAT(found("send_object_list", "recv_object_list"), ElementsAre("0: b", "1: c"));
  // Of other styles: the Python tool does not pair them, and rank 1 counts for itself.
  EXPECT_THAT(found("isend", "recv"), ElementsAre("1: c"));
}

TEST(FindFirstDifferences, LooksBehindTheLastCommunicationAtLast) {
  const std::vector<RankCalls> ranks = {{0, {Gather("g0"), Compute("a")}},
                                        {1, {Gather("g0"), Compute("a"), Compute("b", false)}}};
  EXPECT_THAT(Found(ranks), ElementsAre("1: b"));
  EXPECT_EQ(FirstDifferenceJson(ranks, FindFirstDifferences(ranks)),
            R"({"rank_1": [{"op_name": "b", "data_info": {}, "stack_info": null}]})");
}

TEST(FindFirstDifferences, LeavesOutUninitialisedMemoryAndFindsNothingInEqualRanks) {
  RankCall empty = Compute("Torch.empty.0.forward", false);
  empty.is_ignored = true;
  EXPECT_THAT(Found({{0, {empty, Gather("g"), Compute("a")}}}), ElementsAre());
  EXPECT_THAT(Found({}), ElementsAre());
}

// "npu names -> bench name" per line of the table.
std::vector<std::string> Lines(std::string_view npu_entries, std::string_view bench_entries,
                               TrainingBackend backend) {
  Side npu = SideFromEntries(npu_entries);
  Side bench = SideFromEntries(bench_entries);
  V26Options options;
  options.backend = backend;
  PairResult result;
  const Result<MatchResult> matches =
      MatchTrainingWithInference(options, false, npu, bench, result);
  EXPECT_TRUE(matches.ok()) << matches.status().message();
  std::vector<std::string> lines;
  auto alone = result.shown_bench_only.begin();
  const auto add_alone = [&](size_t before) {
    for (; alone != result.shown_bench_only.end() && alone->before <= before; ++alone) {
      lines.push_back("- -> " + std::string(bench.rows[alone->bench].name));
    }
  };
  for (size_t i = 0; i < matches->pairs.size(); ++i) {
    add_alone(i);
    const RowPair& pair = matches->pairs[i];
    lines.push_back(std::string(npu.rows[pair.npu].name) + " -> " +
                    (pair.bench == kNoRow ? "-" : std::string(bench.rows[pair.bench].name)));
  }
  add_alone(matches->pairs.size());
  return lines;
}

std::string Output(std::string_view name, double value = 1) {
  return "\"" + std::string(name) + "\": {\"output\": [" + TensorText(value) + "]}";
}

TEST(MatchTrainingWithInference, FusesProjectionsOfAnFsdpTrainer) {
  const std::string layer = "Module._fsdp_wrapped_module.model.layers.3._fsdp_wrapped_module.";
  EXPECT_THAT(
      Lines(Output(layer + "self_attn.q_proj.Linear.forward.0") + "," +
                Output(layer + "self_attn.k_proj.Linear.forward.0") + "," +
                Output(layer + "mlp.Qwen2MLP.forward.7") + "," +
                Output(layer + "extra.Linear.forward.0"),
            Output("Module.model.layers.3.self_attn.qkv_proj.QKVParallelLinear.forward.0") + "," +
                Output("Module.model.layers.3.self_attn.attn.Attention.forward.0") + "," +
                Output("Module.model.layers.3.mlp.Qwen2MLP.forward.0"),
            TrainingBackend::kFsdp),
      ElementsAre(
          layer + "self_attn.q_proj.Linear.forward.0.output.0;  " + layer +
              "self_attn.k_proj.Linear.forward.0.output.0 -> "
              "Module.model.layers.3.self_attn.qkv_proj.QKVParallelLinear.forward.0.output.0",
          "- -> Module.model.layers.3.self_attn.attn.Attention.forward.0.output.0",
          layer + "mlp.Qwen2MLP.forward.7.output.0 -> "
                  "Module.model.layers.3.mlp.Qwen2MLP.forward.0.output.0",
          layer + "extra.Linear.forward.0.output.0 -> -"));
}

TEST(MatchTrainingWithInference, TranslatesTheModulesOfMegatron) {
  const std::string training = "Module.module.module.";
  EXPECT_THAT(
      Lines(Output(training + "embedding.word_embeddings.VocabParallelEmbedding.forward.0") + "," +
                Output(training + "decoder.layers.1.self_attention.linear_qkv.Column.forward.0") +
                "," + Output(training + "decoder.layers.1.mlp.linear_fc2.Row.forward.0"),
            Output("Module.model.embed_tokens.VocabParallelEmbedding.forward.0") + "," +
                Output("Module.model.layers.1.self_attn.qkv_proj.QKV.forward.0") + "," +
                Output("Module.model.layers.1.mlp.down_proj.Row.forward.0"),
            TrainingBackend::kMegatron),
      ElementsAre(training +
                      "embedding.word_embeddings.VocabParallelEmbedding.forward.0.output.0 "
                      "-> Module.model.embed_tokens.VocabParallelEmbedding.forward.0.output.0",
                  training + "decoder.layers.1.self_attention.linear_qkv.Column.forward.0.output.0 "
                             "-> Module.model.layers.1.self_attn.qkv_proj.QKV.forward.0.output.0",
                  training + "decoder.layers.1.mlp.linear_fc2.Row.forward.0.output.0 -> "
                             "Module.model.layers.1.mlp.down_proj.Row.forward.0.output.0"));
}

// The output of a call, `count` rows of one name.
std::string OneName(const std::string& call, size_t count) {
  std::string leaf = TensorText(1);
  leaf.insert(1, "\"data_name\": \"" + call + ".output.0.pt\", ");
  std::string leaves = leaf;
  for (size_t i = 1; i < count; ++i) {
    leaves += "," + leaf;
  }
  return "\"" + call + "\": {\"output\": [" + leaves + "]}";
}

// Every row merged with all of its name on the other side would be 2,000 texts of 2,000 names.
TEST(MatchTrainingWithInference, PairsInOrderWhereANameRepeatsWithoutEnd) {
  const std::string inference = "Module.model.layers.3.mlp.Qwen2MLP.forward.0";
  const std::string fsdp =
      "Module._fsdp_wrapped_module.model.layers.3._fsdp_wrapped_module.mlp.Qwen2MLP.forward.0";
  for (const auto& [backend, training] : {std::pair(TrainingBackend::kFsdp, fsdp),
                                          std::pair(TrainingBackend::kMegatron, inference)}) {
    const std::string npu = training + ".output.0";
    const std::string bench = inference + ".output.0";
    std::vector<std::string> expected(2000, npu + " -> " + bench);
    expected.back() = npu + " -> -";
    EXPECT_EQ(Lines(OneName(training, 2000), OneName(inference, 1999), backend), expected);
    expected.back() = "- -> " + bench;
    EXPECT_EQ(Lines(OneName(training, 1999), OneName(inference, 2000), backend), expected);
  }
}

TEST(MatchTrainingWithInference, KeepsTargetOrderWhereTheOrdersContradict) {
  const std::string layer = "Module._fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.";
  EXPECT_THAT(
      Lines(Output(layer + "a.Linear.forward.0") + "," + Output(layer + "b.Linear.forward.0"),
            Output("Module.model.layers.0.b.L.forward.0") + "," +
                Output("Module.model.layers.0.a.L.forward.0"),
            TrainingBackend::kFsdp),
      ElementsAre(layer + "a.Linear.forward.0.output.0 -> "
                          "Module.model.layers.0.a.L.forward.0.output.0",
                  layer + "b.Linear.forward.0.output.0 -> "
                          "Module.model.layers.0.b.L.forward.0.output.0"));
}

TEST(ForwardPassFilter, PausesAtTheBackwardOfTheModelAndResumesAtAnEmbedding) {
  const auto keeps = ForwardPassFilter(TrainingBackend::kFsdp, false);
  EXPECT_TRUE(keeps("Module.model.layers.0.mlp.Qwen2MLP.forward.0"));
  EXPECT_TRUE(keeps("Module.lm_head.Linear.backward.0"));
  EXPECT_FALSE(keeps("Module.model.Qwen2Model.backward.0"));
  EXPECT_FALSE(keeps("Module.model.layers.0.mlp.Qwen2MLP.forward.1"));
  EXPECT_TRUE(keeps("Module.model.embed_tokens.Embedding.forward.1"));
  EXPECT_TRUE(keeps("Module.model.layers.0.mlp.Qwen2MLP.forward.2"));
}

tensor::TensorBuffer Floats(const Shape& shape, const std::vector<float>& values) {
  tensor::TensorBuffer buffer(DType::kFloat32, shape);
  std::memcpy(buffer.mutable_bytes().data(), values.data(), values.size() * sizeof(float));
  return buffer;
}

std::vector<float> ValuesOf(const tensor::TensorBuffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.view().element_count()));
  std::memcpy(values.data(), buffer.view().data, values.size() * sizeof(float));
  return values;
}

TEST(MultiplyByMatrix, MultipliesFromEitherSideAndRefusesOtherSizes) {
  const tensor::TensorBuffer tensor = Floats({1, 2, 2}, {1, 2, 3, 4});
  const tensor::TensorBuffer matrix = Floats({2, 2}, {0, 1, 2, 0});
  ProductBudget budget(1000);
  Result<tensor::TensorBuffer> right =
      MultiplyByMatrix(tensor.view(), matrix.view(), false, budget);
  ASSERT_TRUE(right.ok());
  EXPECT_THAT(ValuesOf(*right), ElementsAre(4, 1, 8, 3));
  Result<tensor::TensorBuffer> left = MultiplyByMatrix(tensor.view(), matrix.view(), true, budget);
  ASSERT_TRUE(left.ok());
  EXPECT_THAT(ValuesOf(*left), ElementsAre(3, 4, 2, 4));
  EXPECT_EQ(MultiplyByMatrix(tensor.view(), Floats({3, 1}, {1, 2, 3}).view(), false, budget)
                .status()
                .code(),
            StatusCode::kMismatch);
}

TEST(MultiplyByMatrix, TakesNoMoreThanTheFilesAccountFor) {
  const tensor::TensorBuffer tensor = Floats({2, 2}, {1, 2, 3, 4});
  ProductBudget budget(0);
  budget.multiplications = 15;  // one product takes 8
  EXPECT_TRUE(MultiplyByMatrix(tensor.view(), tensor.view(), false, budget).ok());
  EXPECT_EQ(MultiplyByMatrix(tensor.view(), tensor.view(), false, budget).status().code(),
            StatusCode::kUnsupported);
  budget = ProductBudget(0);
  budget.bytes = 15;  // one product takes 16
  EXPECT_EQ(MultiplyByMatrix(tensor.view(), tensor.view(), true, budget).status().code(),
            StatusCode::kUnsupported);
}

TEST(MultiplyByMatrix, SumsInTheOrderOfTheAxis) {
  // 1e8 swallows the first 1, not the last one.
  const tensor::TensorBuffer tensor = Floats({1, 4}, {1, 1e8F, -1e8F, 1});
  const tensor::TensorBuffer ones = Floats({4, 1}, {1, 1, 1, 1});
  ProductBudget budget(0);
  const auto product = MultiplyByMatrix(tensor.view(), ones.view(), false, budget);
  ASSERT_TRUE(product.ok());
  EXPECT_THAT(ValuesOf(*product), ElementsAre(1));
}

TEST(ReadCalibrations, KeepsAMatrixOnceForAllItsTensors) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteNpyFile(folder.path() / "m.npy", Floats({2, 2}, {1, 2, 3, 4}).view()).ok());
  std::string names = "a0.pt";
  for (int i = 1; i < 1000; ++i) {
    names += ", a" + std::to_string(i) + ".pt";
  }
  Calibrations calibrations;
  std::vector<std::string> warnings;
  ASSERT_TRUE(ReadCalibrations(folder.Write("a.yaml",
                                            "mode: right_matmul\nscale: 2\n"
                                            "target_tensor_map:\n  m.npy: [" +
                                                names + "]\ngolden_tensor_map:\n  m.npy: [b.pt]\n"),
                               calibrations, warnings)
                  .ok());
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  ASSERT_EQ(calibrations.target.size(), 1000U);
  ASSERT_EQ(calibrations.golden.size(), 1U);
  EXPECT_EQ(calibrations.target.front().matrix, calibrations.target.back().matrix);
  EXPECT_EQ(calibrations.target.front().matrix, calibrations.golden.front().matrix);
  EXPECT_THAT(ValuesOf(*calibrations.target.front().matrix), ElementsAre(2, 4, 6, 8));
}

TEST(ClearRowsFrom, ClearsTheTailOfTheFirstAxisWithinItsBounds) {
  tensor::TensorBuffer buffer = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  ClearRowsFrom(2, buffer.view(), buffer.mutable_bytes());
  EXPECT_THAT(ValuesOf(buffer), ElementsAre(1, 2, 3, 4, 0, 0));
  ClearRowsFrom(99, buffer.view(), buffer.mutable_bytes());
  EXPECT_THAT(ValuesOf(buffer), ElementsAre(1, 2, 3, 4, 0, 0));
  ClearRowsFrom(-1, buffer.view(), buffer.mutable_bytes());
  EXPECT_THAT(ValuesOf(buffer), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(ReadCalibrations, WarnsOfWhatCannotBeUsed) {
  const TemporaryFolder folder;
  Calibrations calibrations;
  std::vector<std::string> warnings;
  ASSERT_TRUE(ReadCalibrations(folder.Write("a.yaml",
                                            "mode: right_matmul\ntarget_tensor_map:\n"
                                            "  missing.npy: [a.pt]\n  text.npy: a.pt\n"),
                               calibrations, warnings)
                  .ok());
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_TRUE(calibrations.target.empty());
  ASSERT_TRUE(
      ReadCalibrations(folder.Write("b.yaml", "mode: turn\n"), calibrations, warnings).ok());
  EXPECT_EQ(warnings.size(), 3u);
  EXPECT_FALSE(
      ReadCalibrations(folder.Write("c.yaml", "mode: right_matmul\ntarget_tensor_map: 3\n"),
                       calibrations, warnings)
          .ok());
}

}  // namespace
}  // namespace msprobe::analysis::compare
