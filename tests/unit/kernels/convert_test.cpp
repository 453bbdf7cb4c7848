#include "src/kernels/convert.h"

#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

class Convert : public EveryTable {};

TEST_P(Convert, WidensEveryFloat16BitPattern) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<uint16_t>(i);
  }
  std::vector<float> out(bits.size());
  WidenToFloat(DType::kFloat16, BytesOf(bits), out);
  for (size_t i = 0; i < bits.size(); ++i) {
    const float expected = tensor::Float16ToFloat(bits[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(out[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST_P(Convert, WidensEveryDTypeAtAnyLengthAndAlignment) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t count : {0U, 1U, 15U, 16U, 17U, 600U}) {
      for (const size_t offset : {0U, 1U, 7U}) {
        const std::vector<std::byte> bytes = MakeElements(dtype, count, offset, Mix::kSpecial, 5);
        std::vector<float> floats(count);
        std::vector<double> doubles(count);
        WidenToFloat(dtype, std::span(bytes).subspan(offset), floats);
        WidenToDouble(dtype, std::span(bytes).subspan(offset), doubles);
        for (size_t i = 0; i < count; ++i) {
          const double expected = ElementAt(dtype, bytes.data() + offset, i).real();
          EXPECT_TRUE(Near(doubles[i], expected, 0)) << DTypeName(dtype) << " " << i;
          EXPECT_TRUE(Near(floats[i], static_cast<float>(expected), std::fabs(expected), 1e-7))
              << DTypeName(dtype) << " " << i;
        }
      }
    }
  }
}

MSPROBE_FOR_EVERY_TABLE(Convert);

TEST(ComplexMagnitudes, NeitherOverflowNorUnderflow) {
  const std::vector<std::complex<double>> values = {{3e300, 4e300}, {3e-300, 4e-300}};
  std::vector<double> out(2);
  ComplexMagnitudes(DType::kComplex128, BytesOf(values), out);
  EXPECT_DOUBLE_EQ(out[0], 5e300);
  EXPECT_DOUBLE_EQ(out[1], 5e-300);
}

TEST(Hypotenuse, IsExactWhereThereIsNothingToRound) {
  for (const double unit : {1.0, 0x1p-1060, 0x1p1018}) {
    EXPECT_EQ(Hypotenuse(3 * unit, -4 * unit), 5 * unit);
    EXPECT_EQ(Hypotenuse(-20 * unit, 21 * unit), 29 * unit);
    EXPECT_EQ(Hypotenuse(0, -7 * unit), 7 * unit);
  }
  EXPECT_EQ(Hypotenuse(0, 0), 0);
  EXPECT_EQ(Hypotenuse(1e300, 1e-300), 1e300);
}

TEST(Hypotenuse, DiffersFromTheCLibraryByOneUnitOfTheLastDigitAtMost) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100'000; ++i) {
    const auto draw = [&] {
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 2000) - 1060);
    };
    const double x = draw();
    const double y = i % 2 == 0 ? draw() : x * (static_cast<double>(random() % 1000) / 1000);
    const double expected = std::hypot(x, y);
    const double actual = Hypotenuse(x, y);
    ASSERT_EQ(actual, Hypotenuse(-y, x));
    ASSERT_TRUE(actual == expected || actual == std::nextafter(expected, actual))
        << x << " " << y << ": " << actual << " and " << expected;
  }
}

TEST(Hypotenuse, AnInfinityCountsMoreThanNan) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Hypotenuse(std::nan(""), -kInfinity), kInfinity);
  EXPECT_EQ(Hypotenuse(kInfinity, 1), kInfinity);
  EXPECT_TRUE(std::isnan(Hypotenuse(std::nan(""), 1)));
  EXPECT_EQ(Hypotenuse(1.7e308, 1.7e308), kInfinity);
}

}  // namespace
}  // namespace msprobe::kernels
