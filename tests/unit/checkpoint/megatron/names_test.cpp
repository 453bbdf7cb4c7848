#include <gtest/gtest.h>

#include "src/checkpoint/megatron/layout.h"

namespace msprobe::checkpoint {
namespace {

TEST(TranslateMegatronName, BringsEveryStyleToOne) {
  const std::pair<std::string_view, std::string_view> names[] = {
      {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
       "decoder.layers.0.input_layernorm.weight"},
      {"language_model.encoder.layers.3.self_attention.dense.weight",
       "decoder.layers.3.self_attention.linear_proj.weight"},
      {"language_model.embedding.word_embeddings.weight", "embedding.word_embeddings.weight"},
      {"language_model.encoder.layers.0.mlp.local_experts.1.dense_h_to_4h.weight",
       "decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight"},
      {"language_model.output_layer.weight", "output_layer.weight"},
      {"language_model.encoder.layers.1.self_attention.query_key_value.bias",
       "decoder.layers.1.self_attention.linear_qkv.bias"},
      {"language_model.encoder.layers.1.input_norm.weight",
       "decoder.layers.1.input_layernorm.weight"},
      {"language_model.encoder.layers.1.post_attention_norm.weight",
       "decoder.layers.1.pre_mlp_layernorm.weight"},
      {"language_model.encoder.final_norm.weight", "decoder.final_layernorm.weight"},
      {"word_embeddings_for_head.weight", "output_layer.weight"},
      {"a/b.dense_4h_to_h.weight", "a/b.linear_fc2.weight"},
  };
  for (const auto& [from, to] : names) {
    EXPECT_EQ(TranslateMegatronName(from, true), to);
    EXPECT_EQ(TranslateMegatronName(from, false), to);
  }
}

TEST(TranslateMegatronName, CorrectsWhatThePythonToolLeavesAlone) {
  const std::pair<std::string_view, std::string_view> names[] = {
      {"decoder.layers.0.mlp.linear_fc1.layer_norm_weight",
       "decoder.layers.0.pre_mlp_layernorm.weight"},
      {"language_model.encoder.layers.0.post_attention_layernorm.bias",
       "decoder.layers.0.pre_mlp_layernorm.bias"},
      {"decoder.layers.0.mlp.experts.linear_fc1.weight12",
       "decoder.layers.0.mlp.experts.local_experts.12.linear_fc1.weight"},
      {"decoder.layers.0.mlp.experts.linear_fc2.bias0",
       "decoder.layers.0.mlp.experts.local_experts.0.linear_fc2.bias"},
  };
  for (const auto& [from, to] : names) {
    EXPECT_EQ(TranslateMegatronName(from, true), to);
    EXPECT_NE(TranslateMegatronName(from, false), to);
  }
  EXPECT_EQ(TranslateMegatronName("mlp.experts.linear_fc1._extra_state", true),
            "mlp.experts.linear_fc1._extra_state");
}

layout::Spread AlongRows(int64_t blocks = 1) {
  return {layout::SpreadKind::kShard,
          0,
          blocks > 1 ? layout::PartOrder::kBlocks : layout::PartOrder::kContiguous,
          blocks,
          {},
          false};
}

layout::Spread AlongColumns() {
  layout::Spread spread = AlongRows();
  spread.dimension = 1;
  return spread;
}

TEST(SpreadOf, TellsRowsColumnsAndCopies) {
  EXPECT_EQ(SpreadOf("layers.0.self_attention.linear_qkv.bias", true, false), AlongRows());
  EXPECT_EQ(SpreadOf("embedding.word_embeddings.weight", true, true), AlongRows());
  EXPECT_EQ(SpreadOf("output_layer.weight", true, true), AlongRows());
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc2.weight", true, true), AlongColumns());
  EXPECT_EQ(SpreadOf("layers.0.self_attention.linear_proj.weight", true, true), AlongColumns());
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc2.bias", true, true), layout::Spread());
  EXPECT_EQ(SpreadOf("layers.0.mlp.router.weight", true, true), layout::Spread());
}

TEST(SpreadOf, KnowsGatesAndLatentAttentionUnlessItMustMergeAsThePythonTool) {
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc1.weight", true, true), AlongRows(2));
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc1.bias", true, false), AlongRows());
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc1.weight", false, true), AlongRows());
  EXPECT_EQ(SpreadOf("layers.0.mlp.linear_fc1._extra_state", true, true), AlongRows());
  EXPECT_EQ(SpreadOf("layers.0.self_attention.linear_kv_up_proj.weight", true, false), AlongRows());
  EXPECT_EQ(SpreadOf("layers.0.self_attention.linear_kv_up_proj.weight", false, false),
            layout::Spread());
  EXPECT_EQ(SpreadOf("layers.0.self_attention.linear_q_up_proj.layer_norm_weight", true, false),
            layout::Spread());
}

TEST(RaiseLayer, ChangesTheFirstLayerNumberOnly) {
  EXPECT_EQ(RaiseLayer("decoder.layers.2.x.layers.0.y", 12, true),
            "decoder.layers.14.x.layers.0.y");
  EXPECT_EQ(RaiseLayer("decoder.final_layernorm.weight", 12, true),
            "decoder.final_layernorm.weight");
  EXPECT_EQ(RaiseLayer("decoder.layers.x.weight", 3, true), "decoder.layers.x.weight");
  EXPECT_EQ(RaiseLayer("layers.99999999999999999999.w", 3, true), "layers.99999999999999999999.w");
}

TEST(RaiseLayer, LeavesLayersOfMultiTokenPredictionAlone) {
  EXPECT_EQ(RaiseLayer("mtp.layers.0.eh_proj.weight", 4, true), "mtp.layers.0.eh_proj.weight");
  EXPECT_EQ(RaiseLayer("mtp.layers.0.eh_proj.weight", 4, false), "mtp.layers.4.eh_proj.weight");
  EXPECT_FALSE(LayerOf("mtp.layers.0.eh_proj.weight", true).has_value());
}

TEST(RaiseExpert, CountsLocalExperts) {
  EXPECT_EQ(RaiseExpert("mlp.experts.local_experts.1.linear_fc1.weight", 4),
            "mlp.experts.local_experts.5.linear_fc1.weight");
  EXPECT_EQ(RaiseExpert("mlp.shared_experts.linear_fc1.weight", 4),
            "mlp.shared_experts.linear_fc1.weight");
  EXPECT_EQ(ExpertOf("mlp.experts.local_experts.7.linear_fc1.weight"), 7);
}

}  // namespace
}  // namespace msprobe::checkpoint
