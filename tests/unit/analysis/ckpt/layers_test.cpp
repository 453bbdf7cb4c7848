#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/ckpt/ckpt.h"

namespace msprobe::analysis::ckpt {
namespace {

PairResult WithSums(std::string name, double difference_square_sum, double square_sum) {
  PairResult pair;
  pair.name = std::move(name);
  pair.metrics.l2 = std::sqrt(difference_square_sum);
  pair.metrics.norm_b = std::sqrt(square_sum);
  return pair;
}

TEST(LayerOf, EndsAtTheFirstNumber) {
  EXPECT_EQ(LayerOf("decoder.layers.3.mlp.experts.2.weight"), "decoder.layers.3");
  EXPECT_EQ(LayerOf("embedding.word_embeddings.weight"), "embedding.word_embeddings");
  EXPECT_EQ(LayerOf("0.weight"), "0");
  EXPECT_EQ(LayerOf("weight"), "weight");
  EXPECT_EQ(LayerOf(""), "");
}

TEST(LayerDifferences, SumsUpTheParametersOfALayer) {
  const std::vector<PairResult> pairs = {WithSums("l.0.a", 9, 50), WithSums("l.1.a", 0, 4),
                                         WithSums("l.0.b", 16, 50)};
  const std::vector<LayerDifference> layers = LayerDifferences(pairs, 10);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].name, "l.0");
  EXPECT_DOUBLE_EQ(layers[0].relative_l2, 0.5);
  EXPECT_EQ(layers[1].relative_l2, 0.0);
}

TEST(LayerDifferences, JoinsNeighboursOfATallStack) {
  std::vector<PairResult> pairs = {WithSums("embedding.weight", 0, 1)};
  for (int i = 0; i < 60; ++i) {
    pairs.push_back(WithSums(fmt::format("h.{}.w", i), 1, 4));
  }
  const std::vector<LayerDifference> layers = LayerDifferences(pairs, 20);
  ASSERT_EQ(layers.size(), 16U);
  EXPECT_EQ(layers[0].name, "embedding");
  EXPECT_EQ(layers[1].name, "h.0-3");
  EXPECT_EQ(layers[15].name, "h.56-59");
  EXPECT_DOUBLE_EQ(layers[15].relative_l2, 0.5);
}

TEST(LayerDifferences, HaveNoFigureWhereAValueIsNotFinite) {
  std::vector<PairResult> pairs = {WithSums("l.0.a", 9, 50), WithSums("l.1.a", 9, 36)};
  pairs[0].sums.nan_count_a = 1;
  pairs[0].outcome = Outcome::kDifferent;
  EXPECT_TRUE(std::isnan(LayerDifferences(pairs, 10)[0].relative_l2));
  EXPECT_EQ(LayerDifferences(pairs, 10)[1].relative_l2, 0.5);
  pairs[0].outcome = Outcome::kIdentical;
  EXPECT_EQ(LayerDifferences(pairs, 10)[0].relative_l2, 0.0);
}

TEST(LayerDifferences, LeavesOutWhatWasNotComputed) {
  std::vector<PairResult> pairs = {WithSums("l.0.a", 9, 50)};
  pairs[0].outcome = Outcome::kShapes;
  EXPECT_TRUE(LayerDifferences(pairs, 10).empty());
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
