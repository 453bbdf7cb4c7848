#include "src/analysis/compare/relation.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {
namespace {

using Values = std::vector<double>;

// A tensor of these values, rounded to a dtype.
Elements Tensor(Shape shape, Values values, DType dtype = DType::kFloat32) {
  Elements elements;
  elements.shape = std::move(shape);
  elements.is_exact = GetDTypeInfo(dtype).kind != DTypeKind::kFloat;
  if (!elements.is_exact) {
    elements.mantissa_bits =
        static_cast<int>(std::lround(-std::log2(tensor::FormatOf(dtype).epsilon())));
    for (double& value : values) {
      value = tensor::RoundToDType(dtype, value);
    }
  }
  elements.read = [values = std::move(values)](int64_t first, std::span<double> out) {
    std::copy_n(values.begin() + first, out.size(), out.begin());
    return true;
  };
  return elements;
}

double NoiseOf(DType dtype) {
  const double epsilon = tensor::FormatOf(dtype).epsilon();
  return epsilon > 0x1p-16 ? 2 * epsilon : 16 * 0x1p-23;
}

// Values as computed in another order: each apart by about a unit.
Values Noisy(Values values, DType dtype, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  for (double& value : values) {
    value *= 1 + normal(random) * tensor::FormatOf(dtype).unit * 0.5;
  }
  return values;
}

Values Normal(size_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.1, 1);
  Values values(count);
  for (double& value : values) {
    value = normal(random);
  }
  return values;
}

constexpr DType kFloats[] = {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16};

class RelationOfTensors : public ::testing::Test {
 protected:
  static constexpr int kSeeds = 6;

  // Makes the NPU side's values of the bench's, in place.
  using Change = std::function<Values(const Values&, const Shape&)>;

  // With noise on both sides, over shapes, dtypes and seeds.
  static void ExpectKind(std::string_view kind, const std::vector<Shape>& shapes,
                         const Change& change, std::optional<double> factor = {},
                         bool is_gradient = false) {
    for (const DType dtype : kFloats) {
      for (int seed = 0; seed < kSeeds; ++seed) {
        std::mt19937_64 random(static_cast<uint64_t>(seed) * 977 + 5);
        const Shape& shape = shapes[static_cast<size_t>(seed) % shapes.size()];
        const Values bench = Normal(static_cast<size_t>(msprobe::ElementCount(shape)), random);
        const Values npu = Noisy(change(bench, shape), dtype, random);
        const std::optional<Relation> found = FindRelation(
            Tensor(shape, npu, dtype), Tensor(shape, bench, dtype), {NoiseOf(dtype), is_gradient});
        ASSERT_TRUE(found) << kind << " " << ShapeText(shape) << " " << DTypeName(dtype);
        EXPECT_EQ(RelationKindName(found->kind), kind)
            << found->text() << " " << ShapeText(shape) << " " << DTypeName(dtype);
        if (factor) {
          ASSERT_TRUE(found->factor);
          EXPECT_EQ(*found->factor, *factor) << DTypeName(dtype);
        }
      }
    }
  }

  static std::string TextOf(const Elements& npu, const Elements& bench,
                            const RelationRequest& request = {NoiseOf(DType::kFloat32), false}) {
    const std::optional<Relation> found = FindRelation(npu, bench, request);
    return found ? found->text() : "none";
  }
};

Values Scaled(Values values, double factor) {
  for (double& value : values) {
    value *= factor;
  }
  return values;
}

TEST_F(RelationOfTensors, AFactorIsAScale) {
  const std::vector<Shape> shapes = {{16, 32}, {1000}, {2, 3, 4, 5}, {64}};
  for (const double factor : {2.0, 0.5, 4.0, 3.0, 1.0 / 3, 8.0, -1.0, 64.0}) {
    ExpectKind(
        "scale", shapes, [&](const Values& b, const Shape&) { return Scaled(b, factor); }, factor);
  }
}

TEST_F(RelationOfTensors, AFactorIsGivenWithTheDigitsThatAreKnown) {
  std::mt19937_64 random(3);
  const Values b = Normal(4096, random);
  const auto text = [&](double factor, bool is_gradient = true, int64_t parts = 1) {
    return TextOf(Tensor({64, 64}, Noisy(Scaled(b, factor), DType::kFloat32, random)),
                  Tensor({64, 64}, b), {NoiseOf(DType::kFloat32), is_gradient, parts});
  };
  EXPECT_EQ(text(2), "2.000 x the reference (reduced twice?)");
  EXPECT_EQ(text(0.25), "0.2500 x the reference (divided twice?)");
  EXPECT_EQ(text(4, false, 4), "4.000 x the reference (reduced twice?)");
  EXPECT_EQ(text(2, false), "2.000 x the reference");
  EXPECT_EQ(text(65536), "65,536 x the reference (loss scale left in?)");
  EXPECT_EQ(text(1.0 / 65536), "1/65,536 of the reference (divided by the loss scale twice?)");
  EXPECT_EQ(text(-1), "-1.000 x the reference (sign flipped?)");
  EXPECT_EQ(text(1.2345), "1.234 x the reference");
  EXPECT_EQ(text(1.2345e-7), "1.234e-07 x the reference");
}

TEST_F(RelationOfTensors, AnOffsetIsAConstant) {
  for (const double offset : {0.5, -3.0, 100.0}) {
    ExpectKind("constant", {{16, 32}, {500}}, [&](Values b, const Shape&) {
      for (double& value : b) {
        value += offset;
      }
      return b;
    });
  }
  std::mt19937_64 random(3);
  const Values b = Normal(512, random);
  Values n = b;
  for (double& value : n) {
    value += 0.25;
  }
  EXPECT_EQ(TextOf(Tensor({512}, n), Tensor({512}, b)), "0.2500 more than the reference");
}

TEST_F(RelationOfTensors, ABiasThatIsAddedTwiceIsAConstant) {
  for (const size_t dim : {0U, 1U, 2U}) {
    ExpectKind("constant", {{8, 16, 12}}, [&](Values b, const Shape& shape) {
      std::mt19937_64 random(7);
      const Values bias = Normal(static_cast<size_t>(shape[dim]), random);
      const int64_t inner = dim == 2 ? 1 : dim == 1 ? 12 : 192;
      for (size_t i = 0; i < b.size(); ++i) {
        b[i] += bias[static_cast<size_t>(static_cast<int64_t>(i) / inner % shape[dim])];
      }
      return b;
    });
  }
}

// Elements of dimension `dim` by another index.
Values Along(const Values& b, const Shape& shape, size_t dim,
             const std::function<int64_t(int64_t)>& from, double otherwise = 0) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) {
    inner *= shape[d];
  }
  Values n(b.size());
  for (size_t at = 0; at < b.size(); ++at) {
    const auto place = static_cast<int64_t>(at);
    const int64_t i = place / inner % shape[dim];
    const int64_t j = from(i);
    n[at] = j < 0 || j >= shape[dim] ? otherwise + std::sin(static_cast<double>(at))
                                     : b[static_cast<size_t>(place + (j - i) * inner)];
  }
  return n;
}

TEST_F(RelationOfTensors, ElementsMovedAlongADimensionAreAShift) {
  for (const size_t dim : {0U, 1U, 2U}) {
    for (const int64_t by : {1, -1, 2, 3}) {
      ExpectKind("shift", {{7, 11, 9}}, [&](const Values& b, const Shape& shape) {
        return Along(b, shape, dim, [&](int64_t i) { return i - by; });
      });
      ExpectKind("shift", {{7, 11, 9}, {16, 12, 20}}, [&](const Values& b, const Shape& shape) {
        return Along(b, shape, dim, [&](int64_t i) { return (i - by + shape[dim]) % shape[dim]; });
      });
    }
  }
  std::mt19937_64 random(3);
  const Values b = Normal(640, random);
  EXPECT_EQ(TextOf(Tensor({4, 160}, Along(b, {4, 160}, 1, [](int64_t i) { return i + 1; })),
                   Tensor({4, 160}, b)),
            "moved by -1 along dimension 1 against the reference");
}

TEST_F(RelationOfTensors, LabelsMovedByOneAreAShift) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::uniform_int_distribution<int> token(0, 5000);
    const Shape shape = {2, 32};
    Values labels(64);
    for (double& label : labels) {
      label = token(random);
    }
    const Values moved = Along(
        labels, shape, 1, [](int64_t i) { return i + 1; }, -100);
    Values rounded = moved;
    for (double& label : rounded) {
      label = std::round(label);
    }
    EXPECT_EQ(TextOf(Tensor(shape, rounded, DType::kInt64), Tensor(shape, labels, DType::kInt64)),
              "moved by -1 along dimension 1 against the reference");
  }
}

TEST_F(RelationOfTensors, BlocksInAnotherOrderAreAPermutation) {
  for (const size_t dim : {0U, 1U}) {
    for (const int64_t blocks : {2, 3, 4}) {
      ExpectKind("permutation", {{24, 48}, {12, 36}}, [&](const Values& b, const Shape& shape) {
        const int64_t block = shape[dim] / blocks;
        return Along(b, shape, dim, [&](int64_t i) {
          const int64_t at = i / block;
          const int64_t other = at == 0 ? 1 : at == 1 ? 0 : at;
          return other * block + i % block;
        });
      });
    }
  }
  // Rows in a random order.
  ExpectKind("permutation", {{24, 16}}, [&](const Values& b, const Shape& shape) {
    std::vector<int64_t> order(24);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(4));
    return Along(b, shape, 0, [&](int64_t i) { return order[static_cast<size_t>(i)]; });
  });
  std::mt19937_64 random(3);
  const Values b = Normal(96 * 8, random);
  const auto swapped = [](int64_t i) { return (i + 48) % 96; };
  EXPECT_EQ(TextOf(Tensor({96, 8}, Along(b, {96, 8}, 0, swapped)), Tensor({96, 8}, b)),
            "with 2 blocks along dimension 0 in another order than the reference");
  // A turn by one part of four ranks.
  const auto turned = [](int64_t i) { return (i + 24) % 96; };
  EXPECT_EQ(TextOf(Tensor({96, 8}, Along(b, {96, 8}, 0, turned)), Tensor({96, 8}, b),
                   {NoiseOf(DType::kFloat32), false, 4}),
            "with 4 blocks along dimension 0 in another order than the reference");
}

TEST_F(RelationOfTensors, AnotherPartInItsPlaceIsAWrongPart) {
  for (const size_t dim : {0U, 1U}) {
    ExpectKind("wrong_part", {{24, 48}, {8, 12}}, [&](const Values& b, const Shape& shape) {
      const int64_t block = shape[dim] / 4;
      return Along(b, shape, dim, [&](int64_t i) { return i / block == 2 ? i - block : i; });
    });
  }
}

TEST_F(RelationOfTensors, SwappedDimensionsAreATranspose) {
  ExpectKind("transpose", {{24, 24}, {8, 8}}, [](const Values& b, const Shape& shape) {
    Values n(b.size());
    const auto size = static_cast<size_t>(shape[0]);
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        n[i * size + j] = b[j * size + i];
      }
    }
    return n;
  });
  // Reshaped where it should be transposed.
  ExpectKind("transpose", {{12, 20}, {2, 6, 10}}, [](const Values& b, const Shape& shape) {
    Values n(b.size());
    const auto columns = static_cast<size_t>(shape.back());
    const auto rows = b.size() / columns;
    for (size_t i = 0; i < b.size(); ++i) {
      n[i] = b[i % rows * columns + i / rows];
    }
    return n;
  });
  // Of another shape.
  std::mt19937_64 random(3);
  const Values b = Normal(600, random);
  Values n(600);
  for (size_t i = 0; i < 600; ++i) {
    n[i] = b[i % 20 * 30 + i / 20];
  }
  EXPECT_EQ(TextOf(Tensor({30, 20}, n), Tensor({20, 30}, b)),
            "with dimensions 0 and 1 swapped against the reference");
}

TEST_F(RelationOfTensors, ZerosInAPartAreAMissingPart) {
  ExpectKind("missing_part", {{16, 24}, {8, 6}}, [](Values b, const Shape& shape) {
    for (size_t i = 0; i < b.size(); ++i) {
      b[i] = static_cast<int64_t>(i) / shape[1] >= shape[0] / 2 ? 0 : b[i];
    }
    return b;
  });
  std::mt19937_64 random(3);
  const Values b = Normal(600, random);
  Values n = b;
  std::fill(n.begin() + 30, n.begin() + 90, 0.0);
  EXPECT_EQ(TextOf(Tensor({20, 30}, n), Tensor({20, 30}, b)),
            "with zeros at indices 1-2 of dimension 0, otherwise equal to the reference");
  EXPECT_EQ(TextOf(Tensor({20, 30}, b), Tensor({20, 30}, n)),
            "without the zeros at indices 1-2 of dimension 0, otherwise equal to the reference");
  // Absent.
  EXPECT_EQ(TextOf(Tensor({10, 30}, Values(b.begin() + 300, b.end())), Tensor({20, 30}, b)),
            "10 of 20 indices of dimension 0 of the reference");
}

// To this many explicit bits of mantissa.
double Rounded(double value, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits + 1)), exponent - bits - 1);
}

TEST_F(RelationOfTensors, RoundingToANarrowerDtypeIsPrecision) {
  for (const auto& [bits, name] : {std::pair{7, "bfloat16"}, std::pair{10, "float16"},
                                   std::pair{3, "float8_e4m3fn"}, std::pair{2, "float8_e5m2"}}) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      std::mt19937_64 random(static_cast<uint64_t>(seed));
      Values b = Normal(256, random);
      for (double& value : b) {
        value = std::copysign(std::max(std::abs(value), 0.02), value);
      }
      Values n = b;
      for (double& value : n) {
        value = Rounded(value, bits);
      }
      EXPECT_EQ(TextOf(Tensor({16, 16}, n), Tensor({16, 16}, b)),
                std::string("after rounding to ") + name + " equal to the reference");
      EXPECT_EQ(TextOf(Tensor({16, 16}, b), Tensor({16, 16}, n)),
                std::string("without the rounding to ") + name + " equal to the reference");
    }
  }
}

TEST_F(RelationOfTensors, NothingIsClaimedOfNoise) {
  for (const DType dtype : kFloats) {
    for (int seed = 0; seed < 2 * kSeeds; ++seed) {
      std::mt19937_64 random(static_cast<uint64_t>(seed));
      const Values b = Normal(240, random);
      const auto find = [&](const Values& n, const Shape& shape) {
        return FindRelation(Tensor(shape, n, dtype), Tensor(shape, b, dtype),
                            {NoiseOf(dtype), true, 2});
      };
      // Equal up to noise; noise beyond rounding; other values; a few other elements.
      for (const Shape& shape : {Shape{240}, Shape{12, 20}, Shape{2, 10, 12}, Shape{1, 240}}) {
        EXPECT_FALSE(find(Noisy(b, dtype, random), shape));
        Values n = b;
        for (double& value : n) {
          value += Normal(1, random)[0] * 0.1;
        }
        EXPECT_FALSE(find(n, shape)) << find(n, shape)->text();
        EXPECT_FALSE(find(Normal(240, random), shape));
        n = b;
        n[static_cast<size_t>(seed)] += 3;
        EXPECT_FALSE(find(n, shape)) << find(n, shape)->text();
        EXPECT_FALSE(find(Values(240, 0.0), shape));
        EXPECT_FALSE(find(Values(240, 1.5), shape));
      }
    }
  }
}

TEST_F(RelationOfTensors, NothingIsClaimedThatCouldFitByChance) {
  const RelationRequest request{NoiseOf(DType::kFloat32), true};
  const auto none = [&](const Shape& shape, const Values& n, const Values& b) {
    const std::optional<Relation> found = FindRelation(Tensor(shape, n), Tensor(shape, b), request);
    EXPECT_FALSE(found) << found->text();
  };
  none({}, {1.7}, {1});
  none({1}, {1.7}, {1});
  none({3}, {1, 0, 0}, {0, 1, 0});
  none({2, 2}, {1, 3, 2, 4}, {1, 2, 3, 4});
  none({100}, Values(100, 5.0), Values(100, 3.0));
  none({10, 10}, Values(100, 0.0), Values(100, 1.0));
  none({10, 10}, Values(100, 1.0), Values(100, 0.0));
  EXPECT_EQ(TextOf(Tensor({}, {4}), Tensor({}, {2})), "2.000 x the reference");
  // A symmetric matrix and one that differs in a single element.
  std::mt19937_64 random(3);
  const Values random_values = Normal(100, random);
  Values symmetric(100);
  for (size_t i = 0; i < 10; ++i) {
    for (size_t j = 0; j < 10; ++j) {
      symmetric[i * 10 + j] = random_values[std::min(i, j) * 10 + std::max(i, j)];
    }
  }
  Values changed = symmetric;
  changed[12] += 1;
  none({10, 10}, changed, symmetric);
  // NaN on either side.
  changed = Scaled(symmetric, 2);
  changed[4] = NAN;
  none({10, 10}, changed, symmetric);
  // Few different numbers: a mask that is another mask.
  std::uniform_int_distribution<int> flag(0, 1);
  Values mask(64);
  Values other(64);
  for (size_t i = 0; i < 64; ++i) {
    mask[i] = flag(random);
    other[i] = flag(random);
  }
  const std::optional<Relation> masks = FindRelation(Tensor({8, 8}, mask, DType::kBool),
                                                     Tensor({8, 8}, other, DType::kBool), request);
  EXPECT_FALSE(masks) << masks->text();
}

TEST_F(RelationOfTensors, PartsOfAPaddedVocabularyAreInAnotherOrder) {
  // 4 parts of 3 columns of which the last 2 are padding, in the reverse order.
  std::mt19937_64 random(5);
  const Values padded = Normal(8 * 12, random);
  const RelationRequest request{NoiseOf(DType::kFloat32), false};
  const auto columns = [&](const std::vector<size_t>& of) {
    Values values;
    for (size_t row = 0; row < 8; ++row) {
      for (const size_t column : of) {
        values.push_back(padded[row * 12 + column]);
      }
    }
    return Tensor({8, static_cast<int64_t>(of.size())}, values);
  };
  const Elements bench = columns({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::optional<Relation> found =
      FindReorderedAmongMore(columns({9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2}), bench, request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text(), "in another order along dimension 1 than the reference");
  EXPECT_EQ(found->kind, RelationKind::kPermutation);
  EXPECT_FALSE(
      FindReorderedAmongMore(columns({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), bench, request))
      << "in the same order";
  EXPECT_FALSE(
      FindReorderedAmongMore(columns({9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 1}), bench, request))
      << "a column is missing";
}

TEST_F(RelationOfTensors, MasksOfInfinitiesMove) {
  Values mask(256);
  for (size_t i = 0; i < 256; ++i) {
    mask[i] = i % 16 > i / 16 ? -INFINITY : 0;
  }
  const Values moved = Along(mask, {16, 16}, 1, [](int64_t i) { return (i + 15) % 16; });
  EXPECT_THAT(TextOf(Tensor({16, 16}, moved), Tensor({16, 16}, mask)),
              ::testing::HasSubstr("moved around by 1 along dimension 1"));
}

TEST_F(RelationOfTensors, PartsOfRanksTellReductions) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const size_t ranks = 2 + static_cast<size_t>(seed) % 3;
    std::vector<Values> parts(ranks);
    Values sum(120);
    for (Values& part : parts) {
      part = Normal(120, random);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += part[i];
      }
    }
    const auto tensors = [](const std::vector<Values>& all) {
      std::vector<Elements> elements;
      for (const Values& values : all) {
        elements.push_back(Tensor({10, 12}, values));
      }
      return elements;
    };
    const RelationRequest request{NoiseOf(DType::kFloat32), true};
    const auto kind = [&](const Values& n, const Values& b, const RankParts& of,
                          std::vector<size_t> concerned = {}) {
      const std::optional<PartRelation> found =
          FindPartRelation(Tensor({10, 12}, n), Tensor({10, 12}, b), of, request);
      if (found) {
        EXPECT_EQ(found->parts, concerned);
      }
      return found ? std::string(RelationKindName(found->relation.kind)) : "none";
    };
    EXPECT_EQ(kind(parts[0], sum, {tensors(parts), {}}), "partial_sum");
    EXPECT_EQ(kind(sum, parts[0], {{}, tensors(parts)}), "partial_sum");
    EXPECT_EQ(kind(Scaled(sum, static_cast<double>(ranks)), sum, {tensors(parts), {}}),
              "reduced_twice");
    const std::vector<Values> equal(ranks, Scaled(sum, 1 / static_cast<double>(ranks)));
    EXPECT_EQ(kind(equal[0], sum, {tensors(equal), {}, true}), "reduced_twice");
    std::vector<Values> wrong = parts;
    wrong[1] = parts[0];
    EXPECT_EQ(kind(sum, sum, {tensors(wrong), tensors(parts)}, {1}), "wrong_part");
    std::vector<Values> missing = parts;
    missing[0] = Values(120, 0.0);
    EXPECT_EQ(kind(sum, sum, {tensors(missing), tensors(parts)}, {0}), "missing_part");
    missing[0] = Normal(120, random);
    EXPECT_EQ(kind(missing[0], sum, {tensors(missing), tensors(parts)}), "none");
    EXPECT_EQ(kind(sum, sum, {tensors(parts), tensors(parts)}), "none");
  }
}

TEST(RelationOfFourStatistics, ShowsScaleConstantAndRounding) {
  std::mt19937_64 random(3);
  const auto statistics = [](const Values& values) {
    FourStatistics found{-HUGE_VAL, HUGE_VAL, 0, 0, static_cast<double>(values.size())};
    for (const double value : values) {
      found.max = std::max(found.max, value);
      found.min = std::min(found.min, value);
      found.mean += value / found.elements;
      found.norm += value * value;
    }
    found.norm = std::sqrt(found.norm);
    return found;
  };
  const auto text = [&](const Values& n, const Values& b) {
    const std::optional<Relation> found = RelationOfStatistics(
        statistics(n), statistics(b), {23, 23}, {NoiseOf(DType::kFloat32), true});
    return found ? found->text() : "none";
  };
  for (int seed = 0; seed < 50; ++seed) {
    const Values b = Normal(400, random);
    EXPECT_EQ(text(Scaled(b, 2), b), "2.000 x the reference (reduced twice?)");
    EXPECT_EQ(text(Scaled(b, -0.5), b), "-0.5000 x the reference (divided twice?)");
    Values n = b;
    for (double& value : n) {
      value += 0.5;
    }
    EXPECT_EQ(text(n, b), "0.5000 more than the reference");
    n = b;
    for (double& value : n) {
      value = tensor::RoundToDType(DType::kBFloat16, value);
    }
    Values wide = b;
    for (double& value : wide) {
      value = tensor::RoundToDType(DType::kFloat32, value);
    }
    EXPECT_EQ(text(n, wide), "after rounding to bfloat16 equal to the reference");
    EXPECT_EQ(text(b, b), "none");
    EXPECT_EQ(text(Normal(400, random), b), "none");
    n = b;
    n[7] += 5;
    EXPECT_EQ(text(n, b), "none");
    std::reverse(n.begin(), n.end());
    EXPECT_EQ(text(n, b), "none");
    EXPECT_EQ(text(Values(400, 2.0), Values(400, 3.0)), "none");
    EXPECT_EQ(text(Values(400, 0.0), b), "none");
  }
}

}  // namespace
}  // namespace msprobe::analysis::compare
