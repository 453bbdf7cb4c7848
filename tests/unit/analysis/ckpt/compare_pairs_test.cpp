#include "src/analysis/ckpt/compare_pairs.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/ckpt/parameters.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

PairResult Compare(const Parameter& a, const Parameter& b, const PairSettings& settings = {},
                   size_t threads = 2) {
  base::ThreadPool pool(threads);
  const std::vector<MatchedPair> pairs = {{a.name, a, b, {}}};
  return ComparePairs(pairs, {}, {}, settings, pool).at(0);
}

PairResult CompareFloats(const std::vector<float>& a, const std::vector<float>& b,
                         const PairSettings& settings = {}) {
  Memory memory;
  const auto count = static_cast<int64_t>(a.size());
  return Compare(memory.Floats("w", {count}, a), memory.Floats("w", {count}, b), settings);
}

// As the Python tool computes.
PairSettings Float32() {
  PairSettings settings;
  settings.float32 = true;
  return settings;
}

struct Expected {
  double l2 = 0;
  double cosine = 0;
};

Expected InLongDouble(const std::vector<float>& a, const std::vector<float>& b) {
  long double dot = 0;
  long double aa = 0;
  long double bb = 0;
  long double dd = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const long double x = a[i];
    const long double y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    dd += (x - y) * (x - y);
  }
  return {static_cast<double>(std::sqrt(dd)), static_cast<double>(dot / std::sqrt(aa * bb))};
}

TEST(ComparePairs, MatchesSumsInHigherPrecisionAcrossBlocks) {
  for (const size_t count : {1, 15, 1000, 65536, 65537, 700001}) {
    const std::vector<float> a = Noise(count, 1);
    const std::vector<float> b = Noise(count, 2);
    const PairResult result = CompareFloats(a, b);
    const Expected expected = InLongDouble(a, b);
    EXPECT_NEAR(*result.metrics.l2, expected.l2, 1e-6 * expected.l2) << count;
    EXPECT_NEAR(*result.metrics.cosine, expected.cosine, 1e-7) << count;
    EXPECT_EQ(result.outcome, Outcome::kDifferent);
  }
}

TEST(ComparePairs, RoundsItsFiguresToFloat32WhenAsked) {
  const PairResult exact = CompareFloats({1.0F, 2.0F}, {1.5F, 2.25F});
  EXPECT_EQ(*exact.metrics.l2, std::sqrt(0.3125));
  const PairResult result = CompareFloats({1.0F, 2.0F}, {1.5F, 2.25F}, Float32());
  EXPECT_EQ(*result.metrics.l2, static_cast<double>(std::sqrt(0.3125F)));
  EXPECT_EQ(*result.metrics.cosine,
            static_cast<double>(static_cast<float>(*result.metrics.cosine)));
}

TEST(ComparePairs, CallsEqualBitsIdenticalWithACosineOfExactlyOne) {
  const std::vector<float> values = Noise(100000, 3);
  const PairResult result = CompareFloats(values, values);
  EXPECT_EQ(result.outcome, Outcome::kIdentical);
  EXPECT_EQ(*result.metrics.l2, 0.0);
  EXPECT_EQ(*result.metrics.cosine, 1.0);
  EXPECT_EQ(result.metrics.norm_ratio, 1.0);
}

TEST(ComparePairs, CallsZerosOfOtherSignEqualButNotIdentical) {
  EXPECT_EQ(CompareFloats({0.0F, 1.0F}, {-0.0F, 1.0F}).outcome, Outcome::kEqual);
}

TEST(ComparePairs, GivesTheSameFiguresHoweverTheSidesAreCut) {
  Memory memory;
  const Parameter a = memory.Floats("w", {600, 500}, Noise(300000, 4));
  const Parameter b = memory.Floats("w", {600, 500}, Noise(300000, 5));
  const PairResult whole = Compare(a, b);
  const std::vector<int64_t> rows = {100, 500};
  const std::vector<int64_t> columns = {123, 277, 100};
  const PairResult cut = Compare(memory.Sharded(a, 0, rows), memory.Sharded(b, 1, columns));
  EXPECT_NEAR(*cut.metrics.l2, *whole.metrics.l2, 1e-7 * *whole.metrics.l2);
  EXPECT_NEAR(*cut.metrics.cosine, *whole.metrics.cosine, 1e-7);
  EXPECT_EQ(cut.sums.finite.max_abs_error, whole.sums.finite.max_abs_error);
  EXPECT_EQ(cut.sums.finite.different_count, whole.sums.finite.different_count);
  EXPECT_EQ(Compare(memory.Sharded(a, 1, columns), a).outcome, Outcome::kIdentical);
}

TEST(ComparePairs, FindsOneChangedElementInAnyShard) {
  Memory memory;
  std::vector<float> values = Noise(70000, 6);
  const Parameter before = memory.Floats("w", {70, 1000}, values);
  values[69999] += 1.0F;
  const Parameter after = memory.Floats("w", {70, 1000}, values);
  const PairResult result =
      Compare(memory.Sharded(before, 1, std::vector<int64_t>{300, 700}), after);
  EXPECT_EQ(result.sums.finite.different_count, 1U);
  EXPECT_NEAR(result.sums.finite.max_abs_error, 1.0, 1e-6);
}

TEST(ComparePairs, ReadsTransposedParameters) {
  Memory memory;
  const std::vector<float> values = Noise(6, 7);
  const Parameter upright = memory.Floats("w", {2, 3}, values);
  const Parameter turned = memory.Floats(
      "w", {3, 2}, {values[0], values[3], values[1], values[4], values[2], values[5]});
  EXPECT_EQ(Compare(*checkpoint::Transpose(upright), turned).outcome, Outcome::kIdentical);
}

TEST(ComparePairs, GivesTheSameBitsOnAnyNumberOfThreads) {
  Memory memory;
  const Parameter a = memory.Floats("w", {2000, 1000}, Noise(2000000, 8));
  const Parameter b = memory.Floats("w", {2000, 1000}, Noise(2000000, 9));
  const PairResult item = Compare(a, b, {}, 1);
  for (const size_t threads : {2, 3, 7}) {
    const PairResult more = Compare(a, b, {}, threads);
    EXPECT_EQ(more.sums.finite.dot, item.sums.finite.dot);
    EXPECT_EQ(more.sums.finite.npu_square_sum, item.sums.finite.npu_square_sum);
    EXPECT_EQ(more.sums.finite.difference_square_sum, item.sums.finite.difference_square_sum);
  }
}

TEST(ComparePairs, TakesEveryDtypeAsFloat32) {
  Memory memory;
  const Parameter floats = memory.Floats("w", {3}, {1.0F, -2.0F, 3.0F});
  const auto of = [&](const TensorView& view) {
    return checkpoint::MakeParameter("w", view, checkpoint::kNoFile);
  };
  const std::vector<Parameter> others = {
      of(memory.Tensor<uint16_t>(DType::kBFloat16, {3}, {0x3F80, 0xC000, 0x4040})),
      of(memory.Tensor<uint16_t>(DType::kFloat16, {3}, {0x3C00, 0xC000, 0x4200})),
      of(memory.Tensor<double>(DType::kFloat64, {3}, {1, -2, 3})),
      of(memory.Tensor<int64_t>(DType::kInt64, {3}, {1, -2, 3})),
      of(memory.Tensor<int8_t>(DType::kInt8, {3}, {1, -2, 3})),
  };
  for (const Parameter& a : others) {
    EXPECT_EQ(Compare(a, floats).outcome, Outcome::kEqual) << DTypeName(a.dtype);
    EXPECT_EQ(*Compare(floats, a).metrics.cosine, 1.0) << DTypeName(a.dtype);
    for (const Parameter& b : others) {
      EXPECT_EQ(*Compare(a, b).metrics.l2, 0.0) << DTypeName(a.dtype) << DTypeName(b.dtype);
    }
  }
}

TEST(ComparePairs, TellsWhatFloat32Hides) {
  Memory memory;
  const auto integers = [&](int64_t value) {
    return checkpoint::MakeParameter("w", memory.Tensor<int64_t>(DType::kInt64, {1}, {value}),
                                     checkpoint::kNoFile);
  };
  const PairResult result = Compare(integers(16777217), integers(16777216), Float32());
  EXPECT_EQ(*result.metrics.l2, 0.0);
  EXPECT_EQ(*result.metrics.cosine, 1.0);
  EXPECT_EQ(result.outcome, Outcome::kDifferent);
  EXPECT_THAT(result.notes, testing::ElementsAre(testing::HasSubstr("not in every digit")));
  const PairResult exact = Compare(integers(16777217), integers(16777216));
  EXPECT_EQ(*exact.metrics.l2, 1.0);
  EXPECT_EQ(exact.sums.finite.max_abs_error, 1.0);
  EXPECT_THAT(exact.notes, testing::IsEmpty());
}

TEST(ComparePairs, KeepsEveryDigitOfLargeIntegers) {
  Memory memory;
  const auto signed_of = [&](std::vector<int64_t> values) {
    return checkpoint::MakeParameter("w", memory.Tensor<int64_t>(DType::kInt64, {2}, values),
                                     checkpoint::kNoFile);
  };
  const auto unsigned_of = [&](std::vector<uint64_t> values) {
    return checkpoint::MakeParameter("w", memory.Tensor<uint64_t>(DType::kUInt64, {2}, values),
                                     checkpoint::kNoFile);
  };
  const PairResult one_off = Compare(signed_of({INT64_MAX, 1}), signed_of({INT64_MAX - 1, 1}));
  EXPECT_EQ(*one_off.metrics.l2, 1.0);
  EXPECT_EQ(one_off.sums.finite.different_count, 1U);
  EXPECT_EQ(*Compare(unsigned_of({UINT64_MAX, 3}), unsigned_of({UINT64_MAX, 0})).metrics.l2, 3.0);
  EXPECT_EQ(Compare(signed_of({5, 1}), unsigned_of({5, 1})).outcome, Outcome::kEqual);
  EXPECT_EQ(Compare(signed_of({-1, 1}), unsigned_of({UINT64_MAX, 1})).outcome, Outcome::kDifferent);
}

TEST(ComparePairs, ComparesComplexNumbersAsAWhole) {
  Memory memory;
  const auto complex = [&](std::vector<float> parts) {
    return checkpoint::MakeParameter("w", memory.Tensor<float>(DType::kComplex64, {2}, parts),
                                     checkpoint::kNoFile);
  };
  const PairResult result = Compare(complex({1, 2, 3, 4}), complex({1, 2, 3, 7}));
  EXPECT_EQ(*result.metrics.l2, 3.0);
  EXPECT_EQ(result.sums.finite.max_abs_error, 3.0);
  EXPECT_EQ(result.sums.finite.different_count, 1U);
  EXPECT_NEAR(result.metrics.norm_a, std::sqrt(30.0), 1e-12);
  EXPECT_EQ(Compare(complex({1, 2, 3, kNan}), complex({1, 2, 3, kNan})).outcome,
            Outcome::kIdentical);
  EXPECT_TRUE(
      Compare(complex({1, 2, 3, kNan}), complex({1, 2, 3, 4})).has_non_finite_on_one_side());
  PairSettings tolerance;
  tolerance.tolerance = {0, 3.5};
  EXPECT_EQ(Compare(complex({1, 2, 3, 4}), complex({1, 2, 3, 7}), tolerance).outcome,
            Outcome::kClose);
}

TEST(ComparePairs, FollowsFloat32WithZeroNorms) {
  EXPECT_EQ(*CompareFloats({0, 0}, {0, 0}).metrics.cosine, 1.0);
  const PairResult one_zero = CompareFloats({0, 0}, {3, 4});
  EXPECT_EQ(*one_zero.metrics.l2, 5.0);
  EXPECT_EQ(one_zero.metrics.cosine, std::nullopt);
  const PairResult empty = CompareFloats({}, {});
  EXPECT_EQ(*empty.metrics.l2, 0.0);
  EXPECT_EQ(*empty.metrics.cosine, 1.0);
  EXPECT_EQ(empty.outcome, Outcome::kIdentical);
}

TEST(ComparePairs, SpreadsNanAndCountsIt) {
  const PairResult result = CompareFloats({kNan, 1, 2}, {1, 1, kNan});
  EXPECT_TRUE(std::isnan(*result.metrics.l2));
  EXPECT_TRUE(std::isnan(*result.metrics.cosine));
  EXPECT_EQ(result.sums.nan_count_a, 1U);
  EXPECT_EQ(result.sums.nan_count_b, 1U);
  EXPECT_TRUE(result.has_non_finite_on_one_side());
}

TEST(ComparePairs, TellsAnInfinityOnOneSideFromOneOnBoth) {
  const PairResult item = CompareFloats({kInfinity, 1}, {1, 1});
  EXPECT_EQ(*item.metrics.l2, static_cast<double>(kInfinity));
  EXPECT_TRUE(std::isnan(*item.metrics.cosine));
  const PairResult same = CompareFloats({kInfinity, 1}, {kInfinity, 1});
  EXPECT_TRUE(std::isnan(*same.metrics.l2));
  EXPECT_EQ(same.outcome, Outcome::kIdentical);
  const PairResult opposite = CompareFloats({kInfinity, 1}, {-kInfinity, 1});
  EXPECT_EQ(*opposite.metrics.l2, static_cast<double>(kInfinity));
  EXPECT_EQ(opposite.outcome, Outcome::kDifferent);
}

TEST(ComparePairs, KeepsTheNormOfASideWhosePartnersAreNotFinite) {
  const PairResult result = CompareFloats({kNan, kInfinity}, {3, 4});
  EXPECT_EQ(result.metrics.norm_b, 5.0);
  EXPECT_TRUE(result.metrics.cosine && std::isnan(*result.metrics.cosine));
}

TEST(ComparePairs, OverflowsWhereFloat32SquaresDo) {
  const PairResult item = CompareFloats({1e20F, 1}, {1, 1}, Float32());
  EXPECT_EQ(*item.metrics.l2, static_cast<double>(kInfinity));
  EXPECT_EQ(*item.metrics.cosine, 0.0);
  const PairResult both = CompareFloats({1e20F, 1}, {1e20F, 1}, Float32());
  EXPECT_EQ(*both.metrics.l2, 0.0);
  EXPECT_TRUE(std::isnan(*both.metrics.cosine));
}

TEST(ComparePairs, LosesWhatFloat32SquaresLose) {
  const std::vector<float> tiny(5000, 1e-30F);
  const std::vector<float> ordinary(5000, 1.0F);
  EXPECT_EQ(CompareFloats(tiny, ordinary, Float32()).metrics.cosine, std::nullopt);
  EXPECT_NEAR(*CompareFloats(tiny, ordinary, Float32()).metrics.l2, std::sqrt(5000.0), 1e-4);
  EXPECT_EQ(*CompareFloats(tiny, std::vector<float>(5000, 2e-30F), Float32()).metrics.cosine, 1.0);
  // Each square vanishes, though their sum would not.
  EXPECT_EQ(CompareFloats(std::vector<float>(5000, 1e-23F), ordinary, Float32()).metrics.cosine,
            std::nullopt);
}

TEST(ComparePairs, KeepsFiguresWhoseSquaresLeaveFloat32) {
  const PairResult large = CompareFloats({1e20F, 1}, {1, 1});
  EXPECT_NEAR(*large.metrics.l2, 1e20, 1e13);
  EXPECT_NEAR(*large.metrics.cosine, std::sqrt(0.5), 1e-7);
  const PairResult small = CompareFloats({1e-30F, 0}, {1e-30F, 1e-30F});
  EXPECT_NEAR(*small.metrics.l2, 1e-30, 1e-36);
  EXPECT_NEAR(*small.metrics.cosine, std::sqrt(0.5), 1e-7);
}

TEST(ComparePairs, KeepsFiguresWhoseSquaresLeaveDouble) {
  Memory memory;
  const auto doubles = [&](std::vector<double> values) {
    return checkpoint::MakeParameter("w", memory.Tensor<double>(DType::kFloat64, {2}, values),
                                     checkpoint::kNoFile);
  };
  for (const double scale : {1e200, 1e300, 1e-200, 1e-300, 1.0}) {
    const PairResult result = Compare(doubles({3 * scale, 0}), doubles({3 * scale, 4 * scale}));
    EXPECT_NEAR(*result.metrics.l2 / scale, 4.0, 1e-12) << scale;
    EXPECT_NEAR(*result.metrics.cosine, 0.6, 1e-12) << scale;
    EXPECT_NEAR(result.metrics.relative_l2, 0.8, 1e-12) << scale;
  }
  EXPECT_EQ(*Compare(doubles({1 + 1e-12, 0}), doubles({1, 0})).metrics.l2, (1 + 1e-12) - 1);
}

TEST(ComparePairs, ComputesNothingForOtherShapes) {
  Memory memory;
  const PairResult result =
      Compare(memory.Floats("w", {2, 3}, Noise(6, 1)), memory.Floats("w", {3, 2}, Noise(6, 1)));
  EXPECT_EQ(result.outcome, Outcome::kShapes);
  EXPECT_EQ(result.metrics.l2, std::nullopt);
}

TEST(ComparePairs, MarksWhatCannotBeReadAndSaysWhy) {
  Memory memory;
  Parameter broken = memory.Floats("w", {2}, {1, 2});
  broken.status = BadFormatError("the member ends early");
  const PairResult result = Compare(memory.Floats("w", {2}, {1, 2}), broken);
  EXPECT_EQ(result.outcome, Outcome::kUnreadable);
  EXPECT_THAT(result.notes, testing::ElementsAre("reference: the member ends early"));
}

TEST(ComparePairs, JudgesEachElementByTheTolerance) {
  PairSettings settings;
  settings.tolerance = {0.01, 0};
  EXPECT_EQ(CompareFloats({1.0F, 100.0F}, {1.005F, 100.5F}, settings).outcome, Outcome::kClose);
  EXPECT_EQ(CompareFloats({1.0F, 100.0F}, {1.02F, 100.0F}, settings).outcome, Outcome::kDifferent);
  settings.tolerance = {0, 0.1};
  EXPECT_EQ(CompareFloats({1.0F, 100.0F}, {1.05F, 100.05F}, settings).outcome, Outcome::kClose);
  EXPECT_EQ(CompareFloats({1.0F, kNan}, {1.05F, 1.0F}, settings).outcome, Outcome::kDifferent);
  EXPECT_EQ(CompareFloats({1.0F, kNan}, {1.05F, kNan}, settings).outcome, Outcome::kClose);
}

TEST(ComparePairs, KeepsTheNotesOfBothSides) {
  Memory memory;
  Parameter a = memory.Floats("w", {1}, {1});
  a.notes.emplace_back("copies differ on ranks 0 and 1");
  base::ThreadPool pool(1);
  const std::vector<MatchedPair> pairs = {{"w", a, memory.Floats("v", {1}, {1}), {"renamed"}}};
  const PairResult result = ComparePairs(pairs, {}, {}, {}, pool).at(0);
  EXPECT_THAT(result.notes,
              testing::ElementsAre("test: copies differ on ranks 0 and 1", "renamed"));
  EXPECT_EQ(result.name_b, "v");
}

// What begins alike is told apart by what comes behind: only equal elements make a pair.
TEST(FindSameContent, FindsEqualElementsUnderOtherNamesAlsoWhereBeginningsAreAlike) {
  constexpr size_t kCount = 100'000;
  Memory memory;
  const std::vector<float> noise = Noise(kCount, 1);
  std::vector<float> other_end = noise;
  other_end.back() += 1;
  const Shape shape = {static_cast<int64_t>(kCount)};
  checkpoint::Checkpoint a;
  checkpoint::Checkpoint b;
  a.parameters = {memory.Floats("begins_alike", shape, other_end),
                  memory.Floats("old", shape, noise),
                  memory.Floats("only_here", shape, Noise(kCount, 2))};
  b.parameters = {memory.Floats("new", shape, noise),
                  memory.Floats("only_there", shape, Noise(kCount, 3))};
  MatchedParameters matched;
  matched.only_in_a = {{"begins_alike", ""}, {"old", ""}, {"only_here", ""}};
  matched.only_in_b = {{"new", ""}, {"only_there", ""}};
  for (const size_t threads : {1, 2, 5}) {
    base::ThreadPool pool(threads);
    const std::vector<SameContent> same = FindSameContent(a, b, matched, {}, UINT64_MAX, pool);
    ASSERT_EQ(same.size(), 1U);
    EXPECT_EQ(same[0].name_a, "old");
    EXPECT_EQ(same[0].name_b, "new");
    EXPECT_FALSE(same[0].transposed);
  }
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
