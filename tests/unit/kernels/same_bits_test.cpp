// Every implementation gives the bits of the plain one, and the plain one gives the same bits on
// every machine: all dtypes, every length up to 300 and long ones, strided views, any alignment,
// NaN, infinities, zeros of both signs and subnormal numbers.
#include <bit>
#include <cstring>
#include <vector>

#include "src/kernels/compare.h"
#include "src/kernels/convert.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

class Digest {
 public:
  void Add(uint64_t bits) { value_ = std::rotl(value_, 7) * 0x9E3779B97F4A7C15U ^ bits; }
  // NaN is NaN: which of its bits are set is the processor's choice.
  void Add(double value) {
    Add(std::isnan(value) ? uint64_t{0x7FF8} << 48U : std::bit_cast<uint64_t>(value));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

void AddTo(Digest& digest, const StatsPartial& stats) {
  digest.Add(stats.element_count);
  for (const double value :
       {stats.max, stats.min, stats.sum, stats.square_sum, stats.smallest_nonzero}) {
    digest.Add(value);
  }
  for (const uint64_t count : {stats.nan_count, stats.positive_inf_count, stats.negative_inf_count,
                               stats.zero_count, stats.subnormal_count}) {
    digest.Add(count);
  }
}

void AddTo(Digest& digest, const ComparePartial& sums) {
  for (const double value :
       {sums.dot, sums.npu_square_sum, sums.bench_square_sum, sums.difference_square_sum,
        sums.max_abs_error, sums.max_relative_error}) {
    digest.Add(value);
  }
  for (const uint64_t count :
       {sums.element_count, sums.nonfinite_mismatch_count, sums.nonfinite_match_count,
        sums.opposite_inf_count, sums.below_one_thousandth_count, sums.below_five_thousandths_count,
        sums.different_count}) {
    digest.Add(count);
  }
}

// Ordinary values, special ones, and bit patterns of any kind, which are mostly subnormal or huge
// in some dtypes. bool has no patterns but 0 and 1.
constexpr int kMixes = 3;
std::vector<std::byte> Elements(DType dtype, size_t count, size_t offset, int mix, uint32_t seed) {
  std::vector<std::byte> bytes =
      MakeElements(dtype, count, offset, mix == 0 ? Mix::kOrdinary : Mix::kSpecial, seed);
  if (mix == 2 && dtype != DType::kBool) {
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) {
      // Small exponents often: the highest byte of many elements is 0 or 0x80.
      const auto bits = static_cast<uint32_t>(random());
      byte = std::byte{static_cast<uint8_t>(bits % 3 == 0 ? bits & 0x80U : bits >> 8U)};
    }
  }
  return bytes;
}

// Everything the kernels compute from one tensor, and from a pair.
uint64_t DigestOf(DType dtype, size_t count, size_t offset, int mix) {
  const auto seed = static_cast<uint32_t>(count * 8 + offset);
  const auto other_seed = static_cast<uint32_t>(seed + count % 3);  // now and then the same values
  const std::vector<std::byte> first = Elements(dtype, count, offset, mix, seed);
  const std::vector<std::byte> second = Elements(dtype, count, 0, mix, other_seed);
  const std::span<const std::byte> data = std::span(first).subspan(offset);
  Digest digest;
  AddTo(digest, StatsOfBlock(dtype, data));
  AddTo(digest, StatsOfBlock(dtype, data, {.zero_below = 1e-8}));
  AddTo(digest, StatsOfBlock(dtype, data, {.zero_below = 1e-30, .magnitudes = true}));
  for (const auto arithmetic :
       {RelativeArithmetic::kOfDTypes, RelativeArithmetic::kAtLeastFloat32}) {
    AddTo(digest, CompareBlock(dtype, data.data(), dtype, second.data(), count, arithmetic));
  }
  std::vector<float> floats(count);
  std::vector<double> doubles(count);
  WidenToFloat(dtype, data, floats);
  WidenToDouble(dtype, data, doubles);
  for (size_t i = 0; i < count; ++i) {
    digest.Add(static_cast<double>(floats[i]));
    digest.Add(doubles[i]);
  }
  return digest.value();
}

class SameBits : public EveryTable {};

TEST_P(SameBits, AsThePlainImplementationForEveryLengthAndAlignment) {
  for (const DType dtype : kAllDTypes) {
    for (int mix = 0; mix < kMixes; ++mix) {
      for (size_t count = 0; count <= 300 && GetParam() != &internal::PlainTable(); ++count) {
        const size_t offset = count % 16;
        const uint64_t actual = DigestOf(dtype, count, offset, mix);
        internal::ForceTableForTesting(&internal::PlainTable());
        const uint64_t plain = DigestOf(dtype, count, offset, mix);
        internal::ForceTableForTesting(GetParam());
        ASSERT_EQ(actual, plain) << DTypeName(dtype) << " x" << count << ", mix " << mix;
      }
    }
  }
}

TEST_P(SameBits, AsThePlainImplementationForLongRuns) {
  for (const DType dtype : kAllDTypes) {
    for (int mix = 0; mix < kMixes; ++mix) {
      for (const size_t count : {size_t{5001}, tensor::kSumBlockElements}) {
        const uint64_t actual = DigestOf(dtype, count, 3, mix);
        internal::ForceTableForTesting(&internal::PlainTable());
        const uint64_t plain = DigestOf(dtype, count, 3, mix);
        internal::ForceTableForTesting(GetParam());
        ASSERT_EQ(actual, plain) << DTypeName(dtype) << " x" << count << ", mix " << mix;
      }
    }
  }
}

// Of a strided view the elements reach the kernels gathered: the same bits as of a copy of them.
TEST_P(SameBits, OfStridedViewsAsOfPlainCopies) {
  for (const DType dtype : kAllDTypes) {
    constexpr int64_t kRows = 37;
    constexpr int64_t kColumns = 23;
    const size_t size = DTypeSize(dtype);
    const std::vector<std::byte> stored =
        Elements(dtype, static_cast<size_t>(kRows * kColumns), 0, 1, 99);
    TensorView view;
    view.dtype = dtype;
    view.data = stored.data();
    view.shape = {kColumns, kRows};
    view.strides = {1, kColumns};  // transposed
    std::vector<std::byte> copy;
    for (int64_t column = 0; column < kColumns; ++column) {
      for (int64_t row = 0; row < kRows; ++row) {
        const std::byte* at = stored.data() + static_cast<size_t>(row * kColumns + column) * size;
        copy.insert(copy.end(), at, at + size);
      }
    }
    Digest of_view;
    std::vector<std::byte> scratch;
    tensor::ForEachBlock(view, 100, scratch, [&](std::span<const std::byte> block, size_t) {
      AddTo(of_view, StatsOfBlock(dtype, block));
    });
    Digest of_copy;
    for (size_t at = 0; at < copy.size(); at += 100 * size) {
      AddTo(of_copy, StatsOfBlock(dtype, std::span(copy).subspan(
                                             at, std::min(100 * size, copy.size() - at))));
    }
    EXPECT_EQ(of_view.value(), of_copy.value()) << DTypeName(dtype);
  }
}

// The number was found on x86-64. A machine that rounds elsewhere, or adds in another order, finds
// another number.
TEST_P(SameBits, AsOnEveryOtherMachine) {
  Digest digest;
  for (const DType dtype : kAllDTypes) {
    for (int mix = 0; mix < kMixes; ++mix) {
      for (const size_t count : {1U, 15U, 16U, 17U, 100U, 5001U}) {
        digest.Add(DigestOf(dtype, count, count % 5, mix));
      }
    }
  }
  EXPECT_EQ(digest.value(), 17577775277196178358U);
}

MSPROBE_FOR_EVERY_TABLE(SameBits);

}  // namespace
}  // namespace msprobe::kernels
