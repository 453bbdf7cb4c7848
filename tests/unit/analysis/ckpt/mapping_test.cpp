#include "src/analysis/ckpt/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/naming/parts.h"
#include "tests/unit/analysis/ckpt/mapping_fixture.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::test_support::ElementsOf;
using msprobe::test_support::TemporaryFolder;
using naming::BuiltInMapping;
using naming::Item;
using naming::LoadBuiltInMapping;
using naming::MakeSide;
using naming::MappedCheckpoint;
using naming::NearestName;
using naming::PartLocation;
using naming::SliceBudget;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MatchedParameters Match(MadeCheckpoint& a, MadeCheckpoint& b, const MappingOptions& options = {}) {
  Result<MatchedParameters> matched = MatchParameters(a.checkpoint(), b.checkpoint(), options);
  EXPECT_TRUE(matched.ok()) << matched.status().message();
  return matched.ok() ? std::move(*matched) : MatchedParameters();
}

std::vector<std::string> Names(const MatchedParameters& matched) {
  std::vector<std::string> names;
  for (const MatchedPair& pair : matched.pairs) {
    names.push_back(pair.name);
  }
  return names;
}

void ExpectEqual(const MatchedPair& pair) {
  EXPECT_EQ(pair.a.shape, pair.b.shape) << pair.name;
  EXPECT_EQ(ElementsOf(pair.a), ElementsOf(pair.b)) << pair.name;
}

constexpr const char* kLayer = "decoder.layers.0.";

// One layer of four query heads in two groups, one element per head and hidden size two, with a
// gated feed-forward, as Megatron has it: values tell where each row belongs.
void AddMegatron(MadeCheckpoint& model) {
  model.Count("embedding.word_embeddings.weight", {4, 2}, 500);
  model.Count(std::string(kLayer) + "input_layernorm.weight", {2}, 900);
  // Rows: q0 q1 k0 v0 | q2 q3 k1 v1.
  model.Add(std::string(kLayer) + "self_attention.linear_qkv.weight", {8, 2},
            {0, 1, 2, 3, 100, 101, 200, 201, 4, 5, 6, 7, 102, 103, 202, 203});
  model.Count(std::string(kLayer) + "self_attention.linear_proj.weight", {2, 4}, 300);
  model.Count(std::string(kLayer) + "pre_mlp_layernorm.weight", {2}, 910);
  model.Count(std::string(kLayer) + "mlp.linear_fc1.weight", {6, 2}, 400);
  model.Count(std::string(kLayer) + "mlp.linear_fc2.weight", {2, 3}, 600);
  model.Count("decoder.final_layernorm.weight", {2}, 920);
  model.Count("output_layer.weight", {4, 2}, 700);
}

void AddLlama(MadeCheckpoint& model, const std::string& prefix = "model.", bool head = true) {
  const std::string layer = prefix + "layers.0.";
  if (head) {
    model.Count("lm_head.weight", {4, 2}, 700);
  }
  model.Count(prefix + "embed_tokens.weight", {4, 2}, 500);
  model.Count(layer + "input_layernorm.weight", {2}, 900);
  model.Count(layer + "self_attn.q_proj.weight", {4, 2}, 0);
  model.Count(layer + "self_attn.k_proj.weight", {2, 2}, 100);
  model.Count(layer + "self_attn.v_proj.weight", {2, 2}, 200);
  model.Count(layer + "self_attn.o_proj.weight", {2, 4}, 300);
  model.Count(layer + "post_attention_layernorm.weight", {2}, 910);
  model.Count(layer + "mlp.gate_proj.weight", {3, 2}, 400);
  model.Count(layer + "mlp.up_proj.weight", {3, 2}, 406);
  model.Count(layer + "mlp.down_proj.weight", {2, 3}, 600);
  model.Count(prefix + "norm.weight", {2}, 920);
}

void KnowHeads(MadeCheckpoint& model) {
  model.facts().attention_heads = 4;
  model.facts().query_groups = 2;
}

TEST(MatchParameters, TakesEqualNamesFirst) {
  MadeCheckpoint a;
  a.Count("x", {2});
  a.Count("y", {2});
  MadeCheckpoint b;
  b.Count("y", {2});
  b.Count("x", {2});
  const MatchedParameters matched = Match(a, b);
  EXPECT_THAT(Names(matched), ElementsAre("x", "y"));
  EXPECT_THAT(matched.warnings, IsEmpty());
  EXPECT_THAT(matched.pairs[0].notes, IsEmpty());
}

TEST(MatchParameters, SeesThroughWrappersPrefixesAndSpellings) {
  MadeCheckpoint a;
  a.Count("module.net._orig_mod.conv.weight", {2});
  a.Count("module.net.norm.gamma", {2});
  MadeCheckpoint b;
  b.Count("conv.weight", {2});
  b.Count("norm.weight", {2});
  const MatchedParameters matched = Match(a, b);
  EXPECT_THAT(Names(matched),
              ElementsAre("module.net._orig_mod.conv.weight", "module.net.norm.gamma"));
  EXPECT_EQ(matched.pairs[1].b.name, "norm.weight");
}

TEST(MatchParameters, JoinsTheProjectionsOfLlamaForMegatron) {
  MadeCheckpoint a;
  AddMegatron(a);
  KnowHeads(a);
  MadeCheckpoint b;
  AddLlama(b);
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.pairs.size(), a.checkpoint().parameters.size());
  for (size_t i = 0; i < matched.pairs.size(); ++i) {
    EXPECT_EQ(matched.pairs[i].name, a.checkpoint().parameters[i].name);
    ExpectEqual(matched.pairs[i]);
  }
  EXPECT_EQ(matched.pairs[2].b.name,
            "model.layers.0.self_attn.q_proj.weight + model.layers.0.self_attn.k_proj.weight + "
            "model.layers.0.self_attn.v_proj.weight");
  EXPECT_THAT(matched.only_in_a, IsEmpty());
  EXPECT_THAT(matched.only_in_b, IsEmpty());
  EXPECT_THAT(matched.warnings, ElementsAre(HasSubstr("read as Megatron")));
}

TEST(MatchParameters, CutsMegatronsJoinedParametersForLlama) {
  MadeCheckpoint a;
  AddLlama(a);
  MadeCheckpoint b;
  AddMegatron(b);
  KnowHeads(b);
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.pairs.size(), a.checkpoint().parameters.size());
  for (const MatchedPair& pair : matched.pairs) {
    ExpectEqual(pair);
  }
  EXPECT_THAT(matched.pairs[4].notes,
              ElementsAre(HasSubstr("cut out of decoder.layers.0.self_attention.linear_qkv")));
  EXPECT_THAT(matched.only_in_b, IsEmpty());
}

TEST(MatchParameters, SaysWhichFlagIsMissingWhereHeadsAreUnknown) {
  MadeCheckpoint a;
  AddMegatron(a);
  MadeCheckpoint b;
  AddLlama(b);
  const MatchedParameters unknown = Match(a, b);
  ASSERT_EQ(unknown.only_in_a.size(), 1u);
  EXPECT_THAT(unknown.only_in_a[0].reason, HasSubstr("--num-attention-heads"));
  EXPECT_EQ(unknown.only_in_b.size(), 3u);
  MappingOptions options;
  options.attention_heads = 4;
  options.query_groups = 2;
  const MatchedParameters told = Match(a, b, options);
  EXPECT_THAT(told.only_in_a, IsEmpty());
  ExpectEqual(told.pairs[2]);
}

TEST(MatchParameters, LearnsTheHeadsFromNormsOfSingleHeads) {
  MadeCheckpoint a;
  AddMegatron(a);
  a.Count("decoder.layers.0.self_attention.q_layernorm.weight", {1});
  MadeCheckpoint b;
  AddLlama(b);
  b.Count("model.layers.0.self_attn.q_norm.weight", {1});
  const MatchedParameters matched = Match(a, b);
  EXPECT_THAT(matched.only_in_a, IsEmpty());
  ExpectEqual(matched.pairs[2]);
}

TEST(MatchParameters, RefusesHeadsThatDoNotFitTheRows) {
  MadeCheckpoint a;
  AddLlama(a);
  MadeCheckpoint b;
  AddMegatron(b);
  b.facts().attention_heads = 9;
  b.facts().query_groups = 3;
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.only_in_a.size(), 3u);
  EXPECT_THAT(matched.only_in_a[0].reason, HasSubstr("cannot be divided"));
  ASSERT_EQ(matched.only_in_b.size(), 1u);
  EXPECT_THAT(matched.only_in_b[0].reason, HasSubstr("q_proj"));
}

TEST(MatchParameters, ComparesAnOutputLayerOfOneSideWithTiedEmbeddings) {
  MadeCheckpoint megatron;
  AddMegatron(megatron);
  KnowHeads(megatron);
  MadeCheckpoint llama;
  AddLlama(llama, "model.", false);
  const MatchedParameters matched = Match(megatron, llama);
  EXPECT_THAT(matched.only_in_a, IsEmpty());
  EXPECT_EQ(matched.pairs.back().name, "output_layer.weight");
  EXPECT_EQ(matched.pairs.back().b.name, "model.embed_tokens.weight");
  EXPECT_THAT(matched.pairs.back().notes,
              ElementsAre(HasSubstr("second checkpoint has no output")));
  const MatchedParameters turned = Match(llama, megatron);
  EXPECT_THAT(turned.only_in_b, IsEmpty());
  EXPECT_EQ(turned.pairs.back().name, "output_layer.weight");
  EXPECT_EQ(turned.pairs.back().a.name, "model.embed_tokens.weight");
}

TEST(MatchParameters, IgnoresBuffersWithAReason) {
  MadeCheckpoint a;
  a.Count("model.norm.weight", {2});
  MadeCheckpoint b;
  b.Count("model.norm.weight", {2});
  b.Count("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  b.Count("other", {2});
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.left_out_b.size(), 1u);
  EXPECT_THAT(matched.left_out_b[0].reason, HasSubstr("rotation"));
  ASSERT_EQ(matched.only_in_b.size(), 1u);
  EXPECT_EQ(matched.only_in_b[0].name, "other");
}

TEST(MatchParameters, NamesWhatItLookedForAndWhatComesNear) {
  MadeCheckpoint a;
  AddMegatron(a);
  KnowHeads(a);
  a.Count("decoder.layers.1.mlp.linear_fc2.weight", {2, 3});
  MadeCheckpoint b;
  AddLlama(b);
  b.Count("model.layers.1.mlp.down_prj.weight", {2, 3});
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.only_in_a.size(), 1u);
  EXPECT_THAT(matched.only_in_a[0].reason, HasSubstr("looked for layers.1.mlp.down_proj.weight"));
  ASSERT_EQ(matched.only_in_b.size(), 1u);
  MadeCheckpoint c;
  c.Count("encoder.block.weight", {1});
  MadeCheckpoint d;
  d.Count("encoder.blocks.weight", {1});
  EXPECT_THAT(Match(c, d).only_in_a[0].reason, HasSubstr("nearest name: encoder.blocks.weight"));
}

TEST(MatchParameters, CutsPaddedVocabularies) {
  MadeCheckpoint a;
  a.Count("embedding.word_embeddings.weight", {8, 2});
  a.Count("output_layer.weight", {8, 2});
  a.Count("decoder.final_layernorm.weight", {2});
  MadeCheckpoint b;
  b.Count("embedding.word_embeddings.weight", {6, 2});
  b.Count("output_layer.weight", {4, 2});
  b.Count("decoder.final_layernorm.weight", {2});
  const MatchedParameters matched = Match(a, b);
  EXPECT_EQ(matched.pairs[0].a.shape, (Shape{6, 2}));
  ExpectEqual(matched.pairs[0]);
  EXPECT_THAT(matched.pairs[0].notes, ElementsAre(HasSubstr("8 and 6 rows: the first 6")));
  // Half of the rows are missing: no padding, but a lost rank.
  EXPECT_EQ(matched.pairs[1].a.shape, (Shape{8, 2}));
  MappingOptions options;
  options.vocabulary = 3;
  const MatchedParameters cut = Match(a, b, options);
  EXPECT_EQ(cut.pairs[0].a.shape, (Shape{3, 2}));
  EXPECT_EQ(cut.pairs[1].b.shape, (Shape{3, 2}));
  EXPECT_EQ(cut.pairs[2].b.shape, (Shape{2}));
  a.facts().vocabulary = 5;
  EXPECT_EQ(Match(a, b).pairs[0].a.shape, (Shape{5, 2}));
}

TEST(MatchParameters, TurnsTheMatricesOfGpt2) {
  MadeCheckpoint a;
  a.Add("decoder.layers.0.self_attention.linear_qkv.weight", {6, 2},
        {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
  a.Add("decoder.layers.0.self_attention.linear_qkv.bias", {6}, {0, 2, 4, 1, 3, 5});
  a.Add("decoder.layers.0.self_attention.linear_proj.weight", {2, 2}, {0, 2, 1, 3});
  a.facts().attention_heads = 2;
  MadeCheckpoint b;
  b.Count("transformer.h.0.attn.c_attn.weight", {2, 6});  // columns q0 q1 k0 k1 v0 v1
  b.Count("transformer.h.0.attn.c_attn.bias", {6});
  b.Count("transformer.h.0.attn.c_proj.weight", {2, 2});
  b.Count("transformer.h.0.attn.bias", {1, 1, 2, 2});
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.pairs.size(), 3u);
  for (const MatchedPair& pair : matched.pairs) {
    ExpectEqual(pair);
  }
  EXPECT_THAT(matched.only_in_b, IsEmpty());
  EXPECT_EQ(matched.left_out_b.size(), 1u);
  const MatchedParameters turned = Match(b, a);
  ASSERT_EQ(turned.pairs.size(), 3u);
  for (const MatchedPair& pair : turned.pairs) {
    ExpectEqual(pair);
  }
}

// The same names with linear layers instead of Conv1D: stored as Megatron has them.
TEST(MatchParameters, LeavesLinearLayersOfGpt2sNamesAsTheyAre) {
  MadeCheckpoint a;
  a.Count("decoder.layers.0.self_attention.linear_proj.weight", {2, 2});
  a.Count("decoder.layers.0.mlp.linear_fc2.weight", {2, 8});
  MadeCheckpoint b;
  b.Count("transformer.h.0.attn.c_attn.weight", {6, 2});
  b.Count("transformer.h.0.attn.c_proj.weight", {2, 2});
  b.Count("transformer.h.0.mlp.c_proj.weight", {2, 8});
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.pairs.size(), 2u);
  ExpectEqual(matched.pairs[0]);
  ExpectEqual(matched.pairs[1]);
}

TEST(MatchParameters, LeavesEqualLayoutsUncut) {
  MadeCheckpoint a;
  a.Count("decoder.layers.0.self_attention.linear_qkv.weight", {6, 2});
  a.Count("decoder.layers.0.self_attention.linear_proj.weight", {2, 2});
  MadeCheckpoint b;
  b.Count("gpt_neox.layers.0.attention.query_key_value.weight", {6, 2});
  b.Count("gpt_neox.layers.0.attention.dense.weight", {2, 2});
  const MatchedParameters matched = Match(a, b);  // without a word about heads
  ASSERT_EQ(matched.pairs.size(), 2u);
  EXPECT_EQ(matched.pairs[0].b.pieces.size(), 1u);
  ExpectEqual(matched.pairs[0]);
}

TEST(MatchParameters, KeepsWhatCannotBeReadInItsPlace) {
  MadeCheckpoint a;
  AddMegatron(a);
  KnowHeads(a);
  MadeCheckpoint b;
  AddLlama(b);
  checkpoint::Parameter& broken = b.checkpoint().parameters[4];
  ASSERT_EQ(broken.name, "model.layers.0.self_attn.k_proj.weight");
  broken.status = BadFormatError("truncated");
  broken.shape.clear();
  broken.pieces.clear();
  const MatchedParameters matched = Match(a, b);
  ASSERT_EQ(matched.pairs.size(), 9u);
  EXPECT_EQ(matched.pairs[2].b.status.message(), "truncated");
}

TEST(SliceBudget, BoundsWhatAForgedNumberOfHeadsCanCost) {
  SliceBudget budget(0);
  EXPECT_TRUE(budget.Take(65'536, 3, 1).ok());
  EXPECT_TRUE(budget.Take(65'536, 3, 1).ok());
  EXPECT_THAT(budget.Take(65'536, 3, 1).message(), HasSubstr("out of proportion"));
  EXPECT_FALSE(SliceBudget(0).Take(65'536, 3, 65'536).ok());
  EXPECT_TRUE(SliceBudget(uint64_t{100} << 30U).Take(65'536, 1000, 1).ok());
}

TEST(MappedCheckpoint, TakesAnItemApartOnce) {
  MadeCheckpoint made;
  AddMegatron(made);
  KnowHeads(made);
  const Result<BuiltInMapping> mapping = LoadBuiltInMapping();
  ASSERT_TRUE(mapping.ok());
  MappedCheckpoint side = MakeSide(made.checkpoint());
  side.heads = {4, 2};
  ChooseDialect(*mapping, side);
  ReadParts(*mapping, side);
  const std::string attention = std::string(kLayer) + "self_attention.";
  const PartLocation query = side.parts.at(attention + "linear_q.weight");
  ASSERT_TRUE(side.TakePart(query).ok());
  side.items[query.item].parameter.pieces.clear();  // not looked at again
  const auto key = side.TakePart(side.parts.at(attention + "linear_k.weight"));
  ASSERT_TRUE(key.ok()) << key.status().message();
  EXPECT_THAT(ElementsOf(*key), ElementsAre(100, 101, 102, 103));
}

TEST(NearestName, LongNamesAreComparedAsFarAsTimeAllows) {
  MappedCheckpoint other;
  for (int i = 0; i < 10; ++i) {
    Item item;
    item.name = std::string(1000, 'x') + std::to_string(i);
    other.items.push_back(std::move(item));
  }
  const std::string name(1000, 'x');
  NearestName patient(other);
  NearestName hasty(other, 15'000);
  EXPECT_EQ(patient.Find(name), other.items[0].name);
  EXPECT_EQ(hasty.Find(name), other.items[0].name);
  EXPECT_EQ(patient.Find(name), other.items[0].name);
  EXPECT_EQ(hasty.Find(name), "");
}

class WithRules : public ::testing::Test {
 protected:
  MappingOptions Rules(const std::string& yaml) {
    MappingOptions options;
    options.rules = folder_.Write("rules.yaml", yaml);
    return options;
  }
  TemporaryFolder folder_;
};

TEST_F(WithRules, RenamesTurnsJoinsAndCuts) {
  MadeCheckpoint a;
  a.Count("block.1.w", {2, 3});
  a.Count("left", {2});
  a.Count("right", {2}, 2);
  a.Count("whole", {4, 1});
  MadeCheckpoint b;
  b.Add("layer.1.weight", {3, 2}, {0, 3, 1, 4, 2, 5});
  b.Count("both", {4});
  b.Count("head", {3, 1});
  b.Count("tail", {1, 1}, 3);
  const MatchedParameters matched = Match(a, b, Rules(R"(
- {from: "block.{n}.w", to: "layer.{n}.weight", transpose: true}
- {from: [left, right], to: both}
- {from: whole, to: [head, tail], sizes: [3, 1]}
)"));
  EXPECT_THAT(Names(matched), ElementsAre("block.1.w", "both", "head", "tail"));
  for (const MatchedPair& pair : matched.pairs) {
    ExpectEqual(pair);
  }
  EXPECT_EQ(matched.pairs[1].a.name, "left + right");
  EXPECT_THAT(matched.pairs[0].notes, ElementsAre("first checkpoint: transposed"));
  EXPECT_THAT(matched.warnings, IsEmpty());
}

TEST_F(WithRules, PrepareNamesForTheBuiltInTables) {
  MadeCheckpoint a;
  AddLlama(a, "policy.llm.");
  MadeCheckpoint b;
  AddMegatron(b);
  KnowHeads(b);
  const MatchedParameters matched =
      Match(a, b, Rules("- {from: \"policy.llm.{rest*}\", to: \"model.{rest*}\"}"));
  EXPECT_THAT(matched.only_in_a, IsEmpty());
  EXPECT_THAT(matched.only_in_b, IsEmpty());
  EXPECT_EQ(matched.pairs[1].name, "policy.llm.embed_tokens.weight");
}

TEST_F(WithRules, IgnoreWhatTheUserNames) {
  MadeCheckpoint a;
  a.Count("x.mask", {2});
  MadeCheckpoint b;
  const MatchedParameters matched =
      Match(a, b, Rules("- {ignore: \"{path*}.mask\", reason: our own mask}"));
  EXPECT_THAT(matched.only_in_a, IsEmpty());
  ASSERT_EQ(matched.left_out_a.size(), 1u);
  EXPECT_EQ(matched.left_out_a[0].reason, "our own mask");
}

TEST_F(WithRules, WarnWhereARuleFitsNothingOrCannotBeApplied) {
  MadeCheckpoint a;
  a.Count("p", {3});
  a.Count("taken", {3});
  MadeCheckpoint b;
  const MatchedParameters matched = Match(a, b, Rules(R"(
- {from: nowhere, to: somewhere}
- {from: p, to: taken}
- {from: [p, q], to: pq}
- {from: p, to: [p0, p1]}
)"));
  EXPECT_THAT(matched.warnings, ::testing::UnorderedElementsAre(
                                    HasSubstr("line 2: no parameter is called nowhere"),
                                    HasSubstr("line 3 cannot be applied to p of the first "
                                              "checkpoint: a parameter taken already exists"),
                                    HasSubstr("q is missing"), HasSubstr("cannot be divided")));
  EXPECT_EQ(matched.only_in_a.size(), 2u);
}

TEST_F(WithRules, OneSideOnlyIsLeftAlone) {
  MadeCheckpoint a;
  a.Count("w", {2, 3});
  MadeCheckpoint b;
  b.Add("w", {3, 2}, {0, 3, 1, 4, 2, 5});
  const MatchedParameters matched =
      Match(a, b, Rules("- {from: w, to: w, transpose: true, side: second}"));
  ASSERT_EQ(matched.pairs.size(), 1u);
  ExpectEqual(matched.pairs[0]);
}

std::string ErrorOf(MadeCheckpoint& model, const MappingOptions& options) {
  MadeCheckpoint other;
  return MatchParameters(model.checkpoint(), other.checkpoint(), options).status().message();
}

TEST_F(WithRules, RulesThatMultiplyAreRefused) {
  MadeCheckpoint model;
  model.Count("m.w", {0});
  std::string doubling;
  std::string joining;
  std::string lengthening;
  for (int i = 0; i < 40; ++i) {
    doubling += "- {from: \"{p*}.w\", to: [\"{p*}a.w\", \"{p*}b.w\"]}\n";
    joining += "- {from: [\"{p*}.w\", \"{p*}.w\"], to: \"{p*}.w\"}\n";
    lengthening += "- {from: \"{p*}.w\", to: \"{p*}-{p*}.w\"}\n";
  }
  EXPECT_THAT(ErrorOf(model, Rules(doubling)),
              ::testing::AllOf(HasSubstr("rules.yaml line "), HasSubstr("too many parameters")));
  EXPECT_THAT(ErrorOf(model, Rules(lengthening)), HasSubstr("too many letters of names"));
  MadeCheckpoint one;
  one.Count("m.w", {1});
  EXPECT_THAT(ErrorOf(one, Rules(joining)), HasSubstr("too many pieces"));
}

TEST_F(WithRules, ThousandsOfRulesCostWhatTheyChange) {
  constexpr int kCount = 20'000;
  MadeCheckpoint a;
  MadeCheckpoint b;
  std::string rules;
  for (int i = 0; i < kCount; ++i) {
    const std::string number = std::to_string(i);
    a.Count("a" + number, {1}, static_cast<float>(i));
    b.Count("b" + number, {1}, static_cast<float>(i));
    rules += "- {from: a";
    rules += number;
    rules += ", to: b" + number + ", side: first}\n";
  }
  const MatchedParameters matched = Match(a, b, Rules(rules));
  EXPECT_EQ(matched.pairs.size(), static_cast<size_t>(kCount));
  EXPECT_THAT(matched.warnings, IsEmpty());
  EXPECT_EQ(Names(matched).back(), "a19999");
}

TEST_F(WithRules, OfManyWarningsTheFirstOnesAreWrittenAndTheRestCounted) {
  MadeCheckpoint a;
  a.Count("taken", {1});
  std::string rules;
  for (int i = 0; i < 50; ++i) {
    a.Count("p" + std::to_string(i) + ".w", {1});
    rules += "- {from: nothing" + std::to_string(i) + ", to: x}\n";
    rules += "- {from: p";
    rules += std::to_string(i);
    rules += ".w, to: taken}\n";
  }
  MadeCheckpoint b;
  const MatchedParameters matched = Match(a, b, Rules(rules));
  EXPECT_EQ(matched.warnings.size(), 42U);
  EXPECT_THAT(matched.warnings,
              ::testing::Contains(HasSubstr(
                  "rules.yaml: 30 more cannot be applied to parameters of the first checkpoint")));
  EXPECT_THAT(matched.warnings,
              ::testing::Contains(HasSubstr("rules.yaml: no parameter fits 30 more rules")));
}

TEST_F(WithRules, PartsStandWhereTheirWholeStoodAndAWholeWhereItsFirstPartDid) {
  MadeCheckpoint a;
  for (const char* name : {"x", "right", "y", "left", "whole", "z"}) {
    a.Count(name, {2});
  }
  MadeCheckpoint b;
  const MatchedParameters matched = Match(a, b, Rules(R"(
- {from: [left, right], to: both}
- {from: whole, to: [whole0, whole1]}
- {from: whole1, to: last}
)"));
  std::vector<std::string> names;
  for (const Unmatched& unmatched : matched.only_in_a) {
    names.push_back(unmatched.name);
  }
  EXPECT_THAT(names, ElementsAre("x", "y", "both", "whole0", "whole1", "z"));
}

TEST_F(WithRules, ABadFileIsAnError) {
  MadeCheckpoint a;
  MadeCheckpoint b;
  const Result<MatchedParameters> matched =
      MatchParameters(a.checkpoint(), b.checkpoint(), Rules("- {from: a}"));
  ASSERT_FALSE(matched.ok());
  EXPECT_THAT(matched.status().message(), HasSubstr("rules.yaml line 1"));
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
