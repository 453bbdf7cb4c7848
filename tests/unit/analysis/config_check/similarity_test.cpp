#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/config_check/check.h"

namespace msprobe::analysis::config_check {
namespace {

double Ratio(const std::string& a, const std::string& b, bool fold_case = true) {
  return Similarity(SimilarityText(a, fold_case), SimilarityText(b, fold_case));
}

TEST(Similarity, IsTwiceTheSharedPiecesOverBothLengths) {
  EXPECT_EQ(Ratio("micro-batch-size", "micro_batch_size"), 0.875);
  EXPECT_EQ(Ratio("norm-epsilon", "norm-eps"), 0.8);
  EXPECT_EQ(Ratio("num-layers", "num-layer"), 0.9473684210526315);
  EXPECT_EQ(Ratio("abc", "xyz"), 0.0);
}

TEST(Similarity, IsOneForEmptyTexts) { EXPECT_EQ(Ratio("", ""), 1.0); }

TEST(Similarity, FoldsTheCaseOnlyWhereAsked) {
  EXPECT_EQ(Ratio("LR", "lr", true), 1.0);
  EXPECT_EQ(Ratio("LR", "lr", false), 0.0);
}

TEST(Similarity, DependsOnTheOrderOfItsTexts) {
  EXPECT_EQ(Ratio("tide", "diet"), 0.25);
  EXPECT_EQ(Ratio("diet", "tide"), 0.5);
}

TEST(Similarity, CountsCharactersNotBytes) { EXPECT_EQ(Ratio("学习率", "学习"), 0.8); }

TEST(Similarity, StartsNoMatchAtFrequentCharactersOfLongTexts) {
  const std::string frequent(250, 'a');
  EXPECT_EQ(Ratio("b" + frequent, frequent + "b"), 2.0 / 502);
  // Below 200 characters all of them count.
  const std::string some(150, 'a');
  EXPECT_EQ(Ratio("b" + some, some + "b"), 300.0 / 302);
}

TEST(Similarity, ExtendsAMatchOverFrequentCharacters) {
  const std::string frequent(250, 'a');
  EXPECT_EQ(Ratio("b" + frequent, "b" + frequent), 1.0);
}

TEST(Similarity, CountsItsSteps) {
  uint64_t steps = 0;
  const SimilarityText text(std::string(150, 'a'), false);
  EXPECT_EQ(Similarity(text, text, steps), 1.0);
  EXPECT_GE(steps, 150U * 150U);
  EXPECT_LE(steps, 150U * 150U + 1000U);
}

TEST(Similarity, IsNeverAboveItsBound) {
  const std::string names[] = {"", "lr", "learning-rate", "seq-length", "Sequence_Length", "aaaa"};
  for (const std::string& a : names) {
    for (const std::string& b : names) {
      const SimilarityText text_a(a, true);
      const SimilarityText text_b(b, true);
      EXPECT_LE(Similarity(text_a, text_b), SimilarityBound(text_a, text_b)) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace msprobe::analysis::config_check
