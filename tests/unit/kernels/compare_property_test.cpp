// Comparison against a naive loop: every dtype and mixed pairs, lengths, alignments and
// implementations.
#include <algorithm>

#include "src/kernels/compare.h"
#include "src/tensor/element_blocks.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

struct Expected {
  ComparePartial partial;
  double absolute_dot = 0;
};

// A value of one side with the rounding of that side's numpy dtype: 2, 4 or 8 bytes.
double RoundTo(int bytes, double value) {
  if (bytes == 8) {
    return value;
  }
  const float single = static_cast<float>(value);
  return bytes == 4 ? single : tensor::Float16ToFloat(tensor::FloatToFloat16(single));
}

// One operation of numpy arithmetic in a type of so many bytes. A double holds the exact operands;
// rounding its result to float32 once more is innocuous for + - / of float32 operands, and numpy
// itself computes float16 in float32.
double Operate(int bytes, char operation, double a, double b) {
  const double exact = operation == '+' ? a + b : operation == '-' ? a - b : a / b;
  return bytes == 8 ? exact : RoundTo(bytes, static_cast<float>(exact));
}

int NumpyBytes(DType dtype) {
  if (GetDTypeInfo(dtype).kind != DTypeKind::kFloat || dtype == DType::kFloat64) {
    return 8;
  }
  return dtype == DType::kFloat16 ? 2 : 4;
}

double NaiveRelative(DType npu_dtype, double n, DType bench_dtype, double b) {
  int npu_bytes = NumpyBytes(npu_dtype);
  int bench_bytes = NumpyBytes(bench_dtype);
  if (GetDTypeInfo(bench_dtype).kind != DTypeKind::kFloat) {
    npu_bytes = 8;
    bench_bytes = 8;
  }
  constexpr double kEpsilon = 2.220446049250313e-16;
  if (b == 0) {
    n = Operate(npu_bytes, '+', n, RoundTo(npu_bytes, kEpsilon));
    b = Operate(bench_bytes, '+', b, RoundTo(bench_bytes, kEpsilon));
  }
  const int bytes = std::max(npu_bytes, bench_bytes);
  return std::fabs(Operate(bytes, '/', Operate(bytes, '-', n, b), b));
}

// numpy rounds the threshold to the array's type.
bool Below(int bytes, double relative, double threshold) {
  return relative < RoundTo(bytes, threshold);
}

Expected NaiveCompare(DType npu_dtype, const std::byte* npu, DType bench_dtype,
                      const std::byte* bench, size_t count) {
  Expected expected;
  ComparePartial& partial = expected.partial;
  partial.element_count = count;
  const int bytes = GetDTypeInfo(bench_dtype).kind != DTypeKind::kFloat
                        ? 8
                        : std::max(NumpyBytes(npu_dtype), NumpyBytes(bench_dtype));
  bool relative_nan = false;
  for (size_t i = 0; i < count; ++i) {
    double n = ElementAt(npu_dtype, npu, i).real();
    double b = ElementAt(bench_dtype, bench, i).real();
    if (std::isnan(n) != std::isnan(b) || std::isinf(n) != std::isinf(b)) {
      ++partial.nonfinite_mismatch_count;
      continue;
    }
    if (!std::isfinite(n)) {
      ++partial.nonfinite_match_count;
      partial.opposite_inf_count += n == -b ? 1U : 0U;
      n = 0;
      b = 0;
    }
    partial.dot += n * b;
    expected.absolute_dot += std::fabs(n * b);
    partial.npu_square_sum += n * n;
    partial.bench_square_sum += b * b;
    partial.difference_square_sum += (n - b) * (n - b);
    partial.max_abs_error = std::max(partial.max_abs_error, std::fabs(n - b));
    partial.different_count += n != b ? 1U : 0U;
    const double relative = NaiveRelative(npu_dtype, n, bench_dtype, b);
    relative_nan = relative_nan || std::isnan(relative);
    partial.max_relative_error = std::max(partial.max_relative_error, relative);
    partial.below_one_thousandth_count += Below(bytes, relative, 0.001) ? 1U : 0U;
    partial.below_five_thousandths_count += Below(bytes, relative, 0.005) ? 1U : 0U;
  }
  if (relative_nan) {
    partial.max_relative_error = std::numeric_limits<double>::quiet_NaN();
  }
  return expected;
}

// A bench close enough to `npu` that every threshold is crossed now and then, equal dtypes only.
void BringCloser(DType dtype, const std::byte* npu, std::byte* bench, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const double factors[] = {1.0, 1.0 + 1e-7, 0.9995, 1.001, 0.995, 1.005, 0.9};
  const bool writable = GetDTypeInfo(dtype).kind == DTypeKind::kFloat && DTypeSize(dtype) > 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = DTypeSize(dtype);
    if (random() % 4 == 0) {
      continue;
    }
    if (writable) {
      PutFloat(dtype, ElementAt(dtype, npu, i).real() * factors[random() % std::size(factors)],
               bench + i * size);
    } else {
      std::memcpy(bench + i * size, npu + i * size, size);
    }
  }
}

void ExpectAgrees(DType npu_dtype, DType bench_dtype, size_t count, size_t npu_offset,
                  size_t bench_offset, Mix mix) {
  const auto seed = static_cast<uint32_t>(count * 64 + npu_offset);
  const std::vector<std::byte> npu_bytes = MakeElements(npu_dtype, count, npu_offset, mix, seed);
  std::vector<std::byte> bench_bytes =
      MakeElements(bench_dtype, count, bench_offset, mix, seed + 1);
  const std::byte* npu = npu_bytes.data() + npu_offset;
  const std::byte* bench = bench_bytes.data() + bench_offset;
  if (npu_dtype == bench_dtype) {
    BringCloser(npu_dtype, npu, bench_bytes.data() + bench_offset, count, seed);
  }
  const ComparePartial actual = CompareBlock(npu_dtype, npu, bench_dtype, bench, count);
  const auto [expected, absolute_dot] = NaiveCompare(npu_dtype, npu, bench_dtype, bench, count);
  SCOPED_TRACE(testing::Message() << DTypeName(npu_dtype) << " against " << DTypeName(bench_dtype)
                                  << " x" << count << " at " << npu_offset << ", " << bench_offset);
  EXPECT_EQ(actual.element_count, expected.element_count);
  EXPECT_EQ(actual.nonfinite_mismatch_count, expected.nonfinite_mismatch_count);
  EXPECT_EQ(actual.nonfinite_match_count, expected.nonfinite_match_count);
  EXPECT_EQ(actual.opposite_inf_count, expected.opposite_inf_count);
  EXPECT_EQ(actual.different_count, expected.different_count);
  EXPECT_EQ(actual.below_one_thousandth_count, expected.below_one_thousandth_count);
  EXPECT_EQ(actual.below_five_thousandths_count, expected.below_five_thousandths_count);
  EXPECT_TRUE(Near(actual.max_abs_error, expected.max_abs_error, 0));
  EXPECT_TRUE(Near(actual.max_relative_error, expected.max_relative_error, 0));
  EXPECT_TRUE(Near(actual.dot, expected.dot, absolute_dot));
  EXPECT_TRUE(Near(actual.npu_square_sum, expected.npu_square_sum, expected.npu_square_sum));
  EXPECT_TRUE(Near(actual.bench_square_sum, expected.bench_square_sum, expected.bench_square_sum));
  EXPECT_TRUE(Near(actual.difference_square_sum, expected.difference_square_sum,
                   expected.difference_square_sum));
}

class CompareProperty : public EveryTable {};

TEST_P(CompareProperty, AgreesWithANaiveLoopForEveryDTypeAndLength) {
  for (const DType dtype : kAllDTypes) {
    for (size_t count = 0; count <= 257; ++count) {
      ExpectAgrees(dtype, dtype, count, 0, 0, Mix::kOrdinary);
      ExpectAgrees(dtype, dtype, count, 0, 0, Mix::kSpecial);
    }
  }
}

TEST_P(CompareProperty, AgreesWithANaiveLoopAtEveryAlignment) {
  for (const DType dtype : kAllDTypes) {
    for (size_t offset = 0; offset <= 15; ++offset) {
      for (const size_t count : {1U, 16U, 49U, 1500U}) {
        ExpectAgrees(dtype, dtype, count, offset, (offset * 7) % 16, Mix::kOrdinary);
        ExpectAgrees(dtype, dtype, count, offset, (offset * 7) % 16, Mix::kSpecial);
      }
    }
  }
}

TEST_P(CompareProperty, AgreesWithANaiveLoopForEveryPairOfDTypes) {
  for (const DType npu_dtype : kAllDTypes) {
    for (const DType bench_dtype : kAllDTypes) {
      for (const size_t count : {1U, 16U, 40U, 2100U}) {
        ExpectAgrees(npu_dtype, bench_dtype, count, 0, 0, Mix::kOrdinary);
        ExpectAgrees(npu_dtype, bench_dtype, count, 1, 3, Mix::kSpecial);
      }
    }
  }
}

TEST_P(CompareProperty, RoundsFloat16QuotientsOfAllMagnitudes) {
  // Every float16 magnitude against a few benches: subnormal, rounding and overflowing quotients.
  for (const int bench_bits :
       {0x0001, 0x0003, 0x03FF, 0x0400, 0x1555, 0x3C01, 0x5555, 0x7BFF, 0x8002}) {
    std::vector<uint16_t> npu(0x7C00);
    const std::vector<uint16_t> bench(npu.size(), static_cast<uint16_t>(bench_bits));
    for (size_t i = 0; i < npu.size(); ++i) {
      npu[i] = static_cast<uint16_t>(i);
    }
    for (size_t first = 0; first < npu.size(); first += 16) {
      const auto* npu_data = reinterpret_cast<const std::byte*>(npu.data() + first);
      const auto* bench_data = reinterpret_cast<const std::byte*>(bench.data());
      const ComparePartial actual =
          CompareBlock(DType::kFloat16, npu_data, DType::kFloat16, bench_data, 16);
      const ComparePartial expected =
          NaiveCompare(DType::kFloat16, npu_data, DType::kFloat16, bench_data, 16).partial;
      ASSERT_TRUE(Near(actual.max_relative_error, expected.max_relative_error, 0))
          << first << " " << bench_bits;
      ASSERT_EQ(actual.below_one_thousandth_count, expected.below_one_thousandth_count) << first;
    }
  }
}

TEST_P(CompareProperty, GivesTheSameBitsAsThePlainImplementation) {
  for (const DType dtype : kAllDTypes) {
    for (const Mix mix : {Mix::kOrdinary, Mix::kSpecial}) {
      const std::vector<std::byte> npu = MakeElements(dtype, 5001, 0, mix, 7);
      const std::vector<std::byte> bench = MakeElements(dtype, 5001, 0, mix, 8);
      const ComparePartial actual = CompareBlock(dtype, npu.data(), dtype, bench.data(), 5001);
      internal::ForceTableForTesting(&internal::PlainTable());
      const ComparePartial plain = CompareBlock(dtype, npu.data(), dtype, bench.data(), 5001);
      internal::ForceTableForTesting(GetParam());
      EXPECT_EQ(0, std::memcmp(&actual, &plain, sizeof(actual))) << DTypeName(dtype);
    }
  }
}

TEST_P(CompareProperty, CutsLongTensorsIntoBlocksThatMergeInOrder) {
  const size_t count = tensor::kSumBlockElements + 333;
  const std::vector<std::byte> npu = MakeElements(DType::kBFloat16, count, 0, Mix::kOrdinary, 21);
  const std::vector<std::byte> bench = MakeElements(DType::kBFloat16, count, 0, Mix::kOrdinary, 22);
  ComparePartial merged = CompareBlock(DType::kBFloat16, npu.data(), DType::kBFloat16, bench.data(),
                                       tensor::kSumBlockElements);
  MergeCompare(merged,
               CompareBlock(DType::kBFloat16, npu.data() + 2 * tensor::kSumBlockElements,
                            DType::kBFloat16, bench.data() + 2 * tensor::kSumBlockElements, 333));
  const ComparePartial whole =
      CompareTensors(DType::kBFloat16, npu.data(), DType::kBFloat16, bench.data(), count);
  const ComparePartial block =
      CompareBlock(DType::kBFloat16, npu.data(), DType::kBFloat16, bench.data(), count);
  EXPECT_EQ(0, std::memcmp(&merged, &whole, sizeof(whole)));
  EXPECT_EQ(0, std::memcmp(&block, &whole, sizeof(whole)));
}

MSPROBE_FOR_EVERY_TABLE(CompareProperty);

}  // namespace
}  // namespace msprobe::kernels
