#include "src/analysis/compare/agreement.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace msprobe::analysis::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

StatValue Number(double value) {
  StatValue stat;
  stat.kind = StatKind::kNumber;
  stat.number = value;
  return stat;
}

SideRow Tensor(std::string_view dtype, double max, double min, double mean, double norm,
               std::string_view shape = "[64, 16]") {
  SideRow row;
  row.name = "Functional.linear.0.forward.output.0";
  row.dtype = dtype;
  row.shape = shape;
  row.is_tensor = true;
  row.state = dump::RowState::kOutput;
  row.md5 = "00000000";
  row.stats = {Number(max), Number(min), Number(mean), Number(norm)};
  return row;
}

bool Agrees(const SideRow& npu, const SideRow& bench, Provenance provenance,
            CompareMode mode = CompareMode::kStatistics, NoiseRules options = {}) {
  Agreement agreement(options, mode);
  const Distance distance =
      mode == CompareMode::kMd5 ? Md5Distance(npu, bench) : StatisticsDistance(npu, bench);
  return agreement.Agrees(npu, bench, distance, provenance);
}

TEST(StatisticsDistance, MeasuresEachStatisticAgainstItsOwnScale) {
  const SideRow bench = Tensor("torch.float32", 2, -4, 0, 32);  // RMS 1
  EXPECT_DOUBLE_EQ(StatisticsDistance(Tensor("torch.float32", 2.4, -4, 0, 32), bench).relative,
                   0.1);
  EXPECT_DOUBLE_EQ(StatisticsDistance(Tensor("torch.float32", 2, -4, 0.25, 32), bench).relative,
                   0.25);
  EXPECT_DOUBLE_EQ(StatisticsDistance(Tensor("torch.float32", 2, -4, 0, 33), bench).relative,
                   1.0 / 32);
  EXPECT_DOUBLE_EQ(StatisticsDistance(Tensor("torch.float32", 2, -4, 0, 33), bench).absolute,
                   1.0 / 32);
}

TEST(StatisticsDistance, AgainstAllZerosTheOtherSideIsTheScale) {
  EXPECT_DOUBLE_EQ(
      StatisticsDistance(Tensor("torch.float32", 2, 0, 1, 4), Tensor("torch.float32", 0, 0, 0, 0))
          .relative,
      8);
}

TEST(CommonFactor, IsOfAllStatisticsOrThereIsNone) {
  const auto of = [](const SideRow& npu, const SideRow& bench) {
    return CommonFactor(npu, bench).value_or(0);
  };
  const auto scaled = [](double by, double max, double min, double mean, double norm) {
    return Tensor("torch.float32", by * max, by * min, by * mean, by * norm);
  };
  const double by = 1.0002;
  EXPECT_NEAR(of(scaled(by, 2, -4, 0.5, 32), scaled(1, 2, -4, 0.5, 32)), 2e-4, 1e-12);
  EXPECT_NEAR(of(scaled(by, 0, -4, -0.1, 32), scaled(1, 0, -4, -0.1, 32)), 2e-4, 1e-12)
      << "of a loss that chooses";
  EXPECT_NEAR(of(scaled(2, 4e-9, -4e-9, 0, 8e-9), scaled(1, 4e-9, -4e-9, 0, 8e-9)), 1, 1e-12);
  EXPECT_NEAR(of(scaled(by, 2, -4, 2e-9, 32), scaled(1, 2, -4, 1e-9, 32)), 2e-4, 1e-12)
      << "a mean that cancels has the digits of what it sums";
  EXPECT_EQ(of(scaled(by, 2.0001, -4, 0.5, 32), scaled(1, 2, -4, 0.5, 32)), 0);
  EXPECT_EQ(of(scaled(by, 2, -4, 0.51, 32), scaled(1, 2, -4, 0.5, 32)), 0);
  EXPECT_EQ(of(scaled(1, 2, -4, 0.5, 32 * by), scaled(1, 2, -4, 0.5, 32)), 0);
  EXPECT_EQ(of(scaled(1.000005, 2, -4, 0.5, 32), scaled(1, 2, -4, 0.5, 32)), 0)
      << "as close to 1 as rounding";
  EXPECT_EQ(of(scaled(by, 4, 4, 4, 128), scaled(1, 4, 4, 4, 128)), 0) << "one number";
  EXPECT_EQ(of(scaled(by, 0, -4, -0.1, 4), scaled(1, 0, -4, -0.1, 4)), 0) << "one element";
  EXPECT_EQ(of(scaled(by, 2, 0, 1, 4), scaled(1, 0, 0, 0, 0)), 0);
  EXPECT_EQ(of(scaled(1, 2, -4, 0.5, kInfinity), scaled(1, 2, -4, 0.5, 32)), 0);
  EXPECT_EQ(of(scaled(1, kInfinity, -4, 0, 32), scaled(1, 2, -4, 0, 32)), 0);
}

TEST(StatisticsDistance, AMaskOfMinusInfinityDoesNotHideTheMaximum) {
  const SideRow npu = Tensor("torch.float32", 1.25, -kInfinity, -kInfinity, kInfinity);
  const SideRow bench = Tensor("torch.float32", 1, -kInfinity, -kInfinity, kInfinity);
  const Distance distance = StatisticsDistance(npu, bench);
  EXPECT_FALSE(distance.nonfinite_differs);
  EXPECT_DOUBLE_EQ(distance.relative, 0.25);
}

TEST(StatisticsDistance, NanOnBothSidesIsEqualAndOnOneSideInfinitelyFar) {
  const SideRow bad = Tensor("torch.float32", NAN, NAN, NAN, NAN);
  EXPECT_TRUE(StatisticsDistance(bad, bad).identical);
  const Distance distance = StatisticsDistance(bad, Tensor("torch.float32", 1, 1, 1, 1));
  EXPECT_TRUE(distance.nonfinite_differs);
  EXPECT_EQ(distance.relative, kInfinity);
}

TEST(StatisticsDistance, RowsWithoutNumbersAreNotComparable) {
  EXPECT_FALSE(StatisticsDistance(SideRow(), SideRow()).comparable);
}

TEST(Md5Distance, OtherChecksumsFallBackToTheStatistics) {
  SideRow npu = Tensor("torch.float32", 2, -4, 0, 32);
  SideRow bench = npu;
  EXPECT_TRUE(Md5Distance(npu, bench).identical);
  npu.md5 = "11111111";
  EXPECT_FALSE(Md5Distance(npu, bench).identical);
  EXPECT_EQ(Md5Distance(npu, bench).relative, 0);
  npu.stats[kMax].number = 2.4;
  EXPECT_NEAR(Md5Distance(npu, bench).relative, 0.1, 1e-12);
}

TEST(ElementCount, MultipliesTheAxes) {
  EXPECT_EQ(ElementCount("[2, 3]"), 6);
  EXPECT_EQ(ElementCount("[7]"), 7);
  EXPECT_EQ(ElementCount("[]"), 1);
  EXPECT_EQ(ElementCount("[0, 3]"), 1);
  EXPECT_EQ(ElementCount("None"), 1);
}

TEST(Agreement, Float32ResultsMayDifferByAFewUnits) {
  const SideRow bench = Tensor("torch.float32", 1, -1, 0, 20);
  EXPECT_TRUE(Agrees(Tensor("torch.float32", 1 + 1e-6, -1, 0, 20), bench, Provenance::kComputed));
  EXPECT_FALSE(Agrees(Tensor("torch.float32", 1 + 4e-6, -1, 0, 20), bench, Provenance::kComputed));
}

TEST(Agreement, Bfloat16ResultsMayDifferByOneUnitAndWeightsMayNot) {
  const SideRow bench = Tensor("torch.bfloat16", 0.2490234375, -0.25, 0.005645751953125, 4.5625);
  const SideRow npu = Tensor("torch.bfloat16", 0.25, -0.25, 0.005645751953125, 4.5625);
  EXPECT_TRUE(Agrees(npu, bench, Provenance::kComputed));
  EXPECT_FALSE(Agrees(npu, bench, Provenance::kStored));
}

TEST(Agreement, AWeightRoundedToBfloat16IsTheSameWeight) {
  const SideRow rounded = Tensor("torch.bfloat16", 0.2490234375, -0.25, 0.005645751953125, 4.5625);
  const SideRow exact = Tensor("torch.float32", 0.2493751049041748, -0.2496778666973114,
                               0.005653592757880688, 4.572498321533203);
  EXPECT_TRUE(Agrees(rounded, exact, Provenance::kStored));
  EXPECT_TRUE(Agrees(exact, rounded, Provenance::kStored));
  const SideRow scaled = Tensor("torch.float32", 0.24962449073791504, -0.2499275505542755,
                                0.005659245420247316, 4.577071189880371);
  EXPECT_FALSE(Agrees(rounded, scaled, Provenance::kStored)) << "its maximum rounds to 0.25";
}

TEST(Agreement, AWeightRoundedToFloat16IsTheSameWeight) {
  const SideRow exact = Tensor("torch.float32", 0.1, -0.2, 0, 4);
  EXPECT_TRUE(Agrees(Tensor("torch.float16", 0.0999755859375, -0.199951171875, 0, 4), exact,
                     Provenance::kStored));
  EXPECT_FALSE(Agrees(Tensor("torch.float16", 0.10009765625, -0.199951171875, 0, 4), exact,
                      Provenance::kStored));
}

TEST(Agreement, NoElementOfARoundedWeightMovesByMoreThanHalfAUnit) {
  const SideRow rounded = Tensor("torch.bfloat16", 0.25, -0.25, 0, 4.5625);
  const SideRow exact = Tensor("torch.float32", 0.2498, -0.2499, 0, 4.57);
  const NoiseRules options;
  Agreement agreement(options, CompareMode::kRealData);
  Distance distance;
  distance.comparable = true;
  distance.relative = 1.7e-3;
  EXPECT_TRUE(agreement.Agrees(rounded, exact, distance, Provenance::kStored, 0x1p-8));
  EXPECT_FALSE(agreement.Agrees(rounded, exact, distance, Provenance::kStored, 0x1p-8 + 1e-4));
  EXPECT_TRUE(agreement.Agrees(rounded, exact, distance, Provenance::kComputed, 0x1p-8 + 1e-4));
}

TEST(Agreement, WithChecksumsAWeightIsTheSameOnlyBitForBit) {
  SideRow npu = Tensor("torch.float32", 1, -1, 0, 20);
  const SideRow bench = npu;
  EXPECT_TRUE(Agrees(npu, bench, Provenance::kStored, CompareMode::kMd5));
  npu.md5 = "11111111";
  EXPECT_FALSE(Agrees(npu, bench, Provenance::kStored, CompareMode::kMd5));
  EXPECT_TRUE(Agrees(npu, bench, Provenance::kComputed, CompareMode::kMd5))
      << "the statistics are equal";
}

TEST(Agreement, IntegersHaveNoNoise) {
  const SideRow bench = Tensor("torch.int64", 31, 0, 15, 70);
  EXPECT_FALSE(Agrees(Tensor("torch.int64", 30, 0, 15, 70), bench, Provenance::kComputed));
  EXPECT_TRUE(Agrees(Tensor("torch.int64", 31, 0, 15, 70.00001), bench, Provenance::kComputed))
      << "the norm is summed in float32";
}

TEST(Agreement, ANanOnOneSideIsNoNoiseWhateverTheTolerance) {
  const SideRow bench = Tensor("torch.float32", 1, -1, 0, 20);
  SideRow npu = Tensor("torch.float32", NAN, NAN, NAN, NAN);
  npu.md5 = "11111111";
  NoiseRules tolerant;
  tolerant.relative_tolerance = 1e30;
  tolerant.absolute_tolerance = 1e30;
  for (const CompareMode mode :
       {CompareMode::kStatistics, CompareMode::kMd5, CompareMode::kRealData}) {
    for (const Provenance provenance : {Provenance::kComputed, Provenance::kStored}) {
      EXPECT_FALSE(Agrees(npu, bench, provenance, mode, tolerant));
      EXPECT_FALSE(Agrees(bench, npu, provenance, mode, tolerant));
    }
  }
}

TEST(Agreement, TolerancesRaiseTheFloor) {
  const SideRow bench = Tensor("torch.float32", 1, -1, 0, 20);
  const SideRow npu = Tensor("torch.float32", 1.05, -1, 0, 20);
  NoiseRules relative;
  relative.relative_tolerance = 0.1;
  EXPECT_TRUE(Agrees(npu, bench, Provenance::kStored, CompareMode::kStatistics, relative));
  NoiseRules absolute;
  absolute.absolute_tolerance = 0.1;
  EXPECT_TRUE(Agrees(npu, bench, Provenance::kComputed, CompareMode::kStatistics, absolute));
  absolute.absolute_tolerance = 0.01;
  EXPECT_FALSE(Agrees(npu, bench, Provenance::kComputed, CompareMode::kStatistics, absolute));
}

TEST(Agreement, UsesACallsOwnNoiseInPlaceOfThatOfItsDtype) {
  const SideRow bench = Tensor("torch.float32", 2, -4, 0, 32);
  SideRow near = Tensor("torch.float32", 2, -4, 0, 32 * (1 + 1e-6));
  SideRow far = Tensor("torch.float32", 2, -4, 0, 32 * (1 + 1e-3));
  EXPECT_TRUE(Agrees(near, bench, Provenance::kComputed));
  EXPECT_FALSE(Agrees(far, bench, Provenance::kComputed));
  near.noise_floor = 1e-7F;
  far.noise_floor = 1e-2F;
  EXPECT_FALSE(Agrees(near, bench, Provenance::kComputed));
  EXPECT_TRUE(Agrees(far, bench, Provenance::kComputed));
}

TEST(Agreement, OwnNoiseOfBothSidesAddsUpAndOneStandsForTheOther) {
  SideRow npu = Tensor("torch.float32", 2, -4, 0, 32);
  SideRow bench = npu;
  EXPECT_EQ(MeasuredNoise(npu, bench), 0);
  bench.noise_floor = 3e-3F;
  EXPECT_NEAR(MeasuredNoise(npu, bench), 3e-3 * std::sqrt(2.0), 1e-9);
  npu.noise_floor = 4e-3F;
  EXPECT_NEAR(MeasuredNoise(npu, bench), 5e-3, 1e-9);
}

TEST(Agreement, OwnNoiseIsNeverBelowTwoUnits) {
  SideRow npu = Tensor("torch.bfloat16", 2, -4, 0, 32);
  SideRow bench = npu;
  npu.noise_floor = bench.noise_floor = 0;
  NoiseRules options;
  EXPECT_DOUBLE_EQ(Agreement(options, CompareMode::kStatistics).Noise(npu, bench), 0x1p-6);
}

TEST(Agreement, OwnNoiseSaysNothingBetweenDtypes) {
  SideRow npu = Tensor("torch.bfloat16", 2, -4, 0, 32);
  SideRow bench = Tensor("torch.float32", 2, -4, 0, 32);
  NoiseRules options;
  Agreement agreement(options, CompareMode::kStatistics);
  const double plain = agreement.Noise(npu, bench);
  bench.noise_floor = 1e-7F;
  EXPECT_DOUBLE_EQ(agreement.Noise(npu, bench), plain);
}

}  // namespace
}  // namespace msprobe::analysis::compare
