#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/monitor/report/report.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As the header describes the bytes, with the arithmetic of a browser: doubles only.
struct Decoder {
  explicit Decoder(const std::string& text) : bytes(text) {}

  std::vector<std::vector<double>> Decode(const std::vector<ColumnToCode>& shapes) {
    size_t at = shapes.size() * 4;
    std::vector<std::vector<double>> codes(shapes.size());
    std::vector<std::vector<uint64_t>> raw(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      codes[i].assign(Byte(4 * i) == 255 ? 0 : shapes[i].values.size(), 0);
      raw[i].assign(codes[i].size(), 0);
    }
    double weight = 1;
    for (unsigned plane = 0; plane < 8; ++plane, weight *= 256) {
      for (size_t i = 0; i < shapes.size(); ++i) {
        for (size_t k = 0; Byte(4 * i + 2) > plane && k < codes[i].size(); ++k, ++at) {
          codes[i][k] += weight * Byte(at);
          raw[i][k] |= uint64_t{Byte(at)} << (8 * plane);
        }
      }
    }
    EXPECT_EQ(at, bytes.size());
    std::vector<std::vector<double>> columns;
    for (size_t i = 0; i < shapes.size(); ++i) {
      columns.push_back(Column(i, shapes[i], codes[i], raw[i]));
    }
    return columns;
  }

  std::vector<double> Column(size_t i, const ColumnToCode& shape, const std::vector<double>& codes,
                             const std::vector<uint64_t>& raw) const {
    const unsigned kind = Byte(4 * i);
    const size_t distance = Byte(4 * i + 1) == 0   ? 0
                            : Byte(4 * i + 1) == 1 ? 1
                                                   : shape.rank_distance;
    std::vector<double> integers;
    std::vector<double> values;
    for (size_t k = 0; k < codes.size(); ++k) {
      if (kind == 17) {
        values.push_back(std::bit_cast<double>(raw[k]));
        continue;
      }
      const double before = distance > 0 && k >= distance ? integers[k - distance] : 0;
      if (codes[k] < 3) {
        integers.push_back(before);
        values.push_back(codes[k] == 0 ? kNan : codes[k] == 1 ? kInfinity : -kInfinity);
        continue;
      }
      const double zigzag = codes[k] - 3;
      const bool even = std::fmod(zigzag, 2) == 0;
      integers.push_back(before + (even ? zigzag / 2 : -(zigzag + 1) / 2));
      values.push_back(kind == 16 ? AsFloat(integers.back())
                                  : integers.back() / std::pow(10.0, kind));
    }
    return values;
  }

  static double AsFloat(double integer) {
    const auto number = static_cast<int64_t>(integer);
    return std::bit_cast<float>(number >= 0 ? static_cast<uint32_t>(number)
                                            : static_cast<uint32_t>(-number - 1) | 0x80000000U);
  }

  unsigned Byte(size_t at) const { return static_cast<unsigned char>(bytes.at(at)); }
  unsigned kind(size_t column) const { return Byte(4 * column); }

  const std::string& bytes;
};

void ExpectSame(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << a[i] << " and " << b[i] << " at " << i;
  }
}

std::vector<double> RoundTrip(const std::vector<double>& values, uint32_t rank_distance = 0,
                              unsigned* kind = nullptr) {
  const std::vector<ColumnToCode> columns = {{values, rank_distance}};
  std::string bytes;
  AppendColumns(columns, bytes);
  Decoder decoder(bytes);
  if (kind != nullptr) {
    *kind = decoder.kind(0);
  }
  return decoder.Decode(columns)[0];
}

TEST(ColumnCode, KeepsDecimalsExactly) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(10, 0.1);
  std::vector<double> values;
  for (int i = 0; i < 2000; ++i) {
    values.push_back(std::rint(normal(random) * 1e6) / 1e6);
  }
  unsigned kind = 0;
  ExpectSame(RoundTrip(values, 250, &kind), values);
  EXPECT_EQ(kind, 6U);
}

TEST(ColumnCode, KeepsWhatIsNotFinite) {
  const std::vector<double> values = {1.5, kNan, -kInfinity, 2.5, kInfinity, kNan, -3.25, 0};
  ExpectSame(RoundTrip(values), values);
  ExpectSame(RoundTrip({kNan, kNan, kNan}), {kNan, kNan, kNan});
}

TEST(ColumnCode, KeepsSevenDigitsOfLongNumbers) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(normal(random) * std::pow(10.0, i % 20 - 10));
  }
  unsigned kind = 0;
  const std::vector<double> back = RoundTrip(values, 0, &kind);
  EXPECT_EQ(kind, 16U);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(back[i], static_cast<double>(static_cast<float>(values[i])));
  }
}

TEST(ColumnCode, KeepsNumbersBeyondTheRangeOfFloat) {
  const std::vector<double> values = {1e300, -1e-300, 1.0 / 3, kInfinity, kNan, 5e-324};
  unsigned kind = 0;
  ExpectSame(RoundTrip(values, 0, &kind), values);
  EXPECT_EQ(kind, 17U);
}

TEST(ColumnCode, KeepsLargeIntegers) {
  const std::vector<double> values = {1125899906842624.0, -1125899906842624.0, 0, 7};
  ExpectSame(RoundTrip(values), values);
}

TEST(ColumnCode, NeedsLittleForWhatEqualsTheRankBefore) {
  std::mt19937_64 random(3);
  std::vector<double> rank;
  for (int i = 0; i < 100; ++i) {
    rank.push_back(static_cast<double>(random() % 1000000) / 1e6);
  }
  std::vector<double> values = rank;
  values.insert(values.end(), rank.begin(), rank.end());
  ExpectSame(RoundTrip(values, 100), values);
  const std::vector<ColumnToCode> columns = {{values, 100}};
  std::string bytes;
  AppendColumns(columns, bytes);
  EXPECT_EQ(Decoder(bytes).Byte(1), 2U);  // the distance of the rank before
}

TEST(ColumnCode, PacksColumnsOfSeveralKindsAndLengthsTogether) {
  const std::vector<double> a = {1, 2, 3};
  const std::vector<double> b = {1e-20, 1.23456789e20};
  const std::vector<double> none;
  const std::vector<double> c = {0.5};
  const std::vector<ColumnToCode> columns = {{a, 0}, {none, 0}, {b, 0}, {c, 0}};
  std::string bytes;
  AppendColumns(columns, bytes);
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.kind(1), 255U);
  const std::vector<std::vector<double>> back = decoder.Decode(columns);
  ExpectSame(back[0], a);
  EXPECT_TRUE(back[1].empty());
  ExpectSame(back[3], c);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
