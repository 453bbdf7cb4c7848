// Bounds of linear algebra hold of what float32 elimination does, and a wrong element is beyond.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

constexpr size_t kSize = 24;
const Shape kSquare = {kSize, kSize};

std::vector<float> Random(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> numbers(kSize * kSize);
  for (float& number : numbers) {
    number = draw(engine);
  }
  return numbers;
}

// Gauss-Jordan elimination without pivoting of A with a heavy diagonal, all in float32.
std::vector<float> InverseInFloat(std::vector<float> a) {
  std::vector<float> x(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    x[i * kSize + i] = 1;
  }
  for (size_t k = 0; k < kSize; ++k) {
    const float pivot = a[k * kSize + k];
    for (size_t j = 0; j < kSize; ++j) {
      a[k * kSize + j] /= pivot;
      x[k * kSize + j] /= pivot;
    }
    for (size_t i = 0; i < kSize; ++i) {
      const float factor = a[i * kSize + k];
      for (size_t j = 0; i != k && j < kSize; ++j) {
        a[i * kSize + j] -= factor * a[k * kSize + j];
        x[i * kSize + j] -= factor * x[k * kSize + j];
      }
    }
  }
  return x;
}

std::vector<float> HeavyDiagonal() {
  std::vector<float> a = Random(1);
  for (size_t i = 0; i < kSize; ++i) {
    a[i * kSize + i] += 20;
  }
  return a;
}

std::vector<float> CholeskyInFloat(std::vector<float> a) {
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      float rest = a[i * kSize + j];
      for (size_t k = 0; k < std::min(i, j); ++k) {
        rest -= a[i * kSize + k] * a[j * kSize + k];
      }
      a[i * kSize + j] = j > i ? 0 : j == i ? std::sqrt(rest) : rest / a[j * kSize + j];
    }
  }
  return a;
}

// The verdict of a call of one matrix of float64 with this result.
Verdict JudgedInDouble(const std::string& name, const std::vector<double>& input, int64_t size,
                       double output) {
  Ranks ranks(1);
  ranks.Add(0, "Torch." + name + ".0.forward", ranks.Leaf<double>(0, "in.npy", input, {size, size}),
            "", ranks.Leaf<double>(0, "out.npy", {output}, {}));
  return ranks.Check().calls[0].verdict();
}

// The verdict of a call of one matrix with this result.
Verdict Judged(const std::string& name, const std::vector<float>& input,
               const std::vector<float>& output, const Shape& shape) {
  Ranks ranks(1);
  ranks.Add(0, "Torch." + name + ".0.forward", ranks.Leaf(0, "in.npy", input, kSquare), "",
            ranks.Leaf(0, "out.npy", output, shape));
  const Answer answer = ranks.Check();
  return answer.calls[0].verdict();
}

TEST(LinearAlgebra, AnInverseByAnotherEliminationIsWithin) {
  const std::vector<float> a = HeavyDiagonal();
  std::vector<float> x = InverseInFloat(a);
  EXPECT_EQ(Judged("inverse", a, x, kSquare), Verdict::kWithin);
  EXPECT_EQ(Judged("inv", a, x, kSquare), Verdict::kWithin);
  x[77] += 1e-3F;
  EXPECT_EQ(Judged("inverse", a, x, kSquare), Verdict::kBeyond);
}

TEST(LinearAlgebra, MindSporesInvIsTheReciprocal) {
  const std::vector<float> a = HeavyDiagonal();
  std::vector<float> x = a;
  for (float& number : x) {
    number = 1 / number;
  }
  EXPECT_EQ(Judged("inv", a, x, kSquare), Verdict::kWithin);
  x[5] *= 1.0001F;
  EXPECT_EQ(Judged("inv", a, x, kSquare), Verdict::kBeyond);
}

TEST(LinearAlgebra, AFactorOfCholeskyIsWithin) {
  const std::vector<float> b = Random(2);
  std::vector<float> a(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      for (size_t k = 0; k < kSize; ++k) {
        a[i * kSize + j] += b[i * kSize + k] * b[j * kSize + k];
      }
      a[i * kSize + j] += i == j ? 1 : 0;
    }
  }
  std::vector<float> l = CholeskyInFloat(a);
  EXPECT_EQ(Judged("cholesky", a, l, kSquare), Verdict::kWithin);
  l[kSize * 20 + 3] += 0.01F;
  EXPECT_EQ(Judged("cholesky", a, l, kSquare), Verdict::kBeyond);
  EXPECT_EQ(Judged("cholesky", Random(3), l, kSquare), Verdict::kNotCheckable);
}

TEST(LinearAlgebra, ADeterminantIsJudgedByItsMatrix) {
  std::vector<float> a(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    a[i * kSize + i] = 1 + static_cast<float>(i) / kSize;
  }
  float product = 1;
  for (size_t i = 0; i < kSize; ++i) {
    product *= a[i * kSize + i];
  }
  EXPECT_EQ(Judged("det", a, {product}, {}), Verdict::kWithin);
  EXPECT_EQ(Judged("det", a, {-product}, {}), Verdict::kBeyond);
  EXPECT_EQ(Judged("logdet", a, {std::log(product)}, {}), Verdict::kWithin);
  EXPECT_EQ(Judged("logdet", a, {std::log10(product)}, {}), Verdict::kBeyond);
}

TEST(LinearAlgebra, ALargeDeterminantOfFloat64IsAsExactAsItsProduct) {
  EXPECT_EQ(JudgedInDouble("det", {1e300}, 1, 1e300), Verdict::kWithin);
  EXPECT_EQ(JudgedInDouble("det", {1e150, 0, 0, -3e147}, 2, 1e150 * -3e147), Verdict::kWithin);
  EXPECT_EQ(JudgedInDouble("det", {1e150, 0, 0, -3e147}, 2, 1e150 * -3e147 * (1 + 1e-13)),
            Verdict::kBeyond);
}

// Gradients of calls whose results the dump does not hold.
TEST(LinearAlgebra, AnInverseWithoutItsResultIsNotCheckable) {
  for (const std::string name : {"Torch.inv.0", "Torch.argmax.0"}) {
    Ranks ranks(1);
    ranks.Add(0, name + ".forward", ranks.Leaf(0, "in.npy", {2, 0, 0, 2}, {2, 2}), "", "null");
    ranks.AddBackward(0, name + ".backward", ranks.Leaf(0, "gi.npy", {1, 1, 1, 1}, {2, 2}),
                      ranks.Leaf(0, "go.npy", {1, 1, 1, 1}, {2, 2}));
    EXPECT_EQ(ranks.Check().not_checkable, 2U) << name;
  }
}

TEST(LinearAlgebra, NothingIsSaidOfASingularMatrix) {
  const std::vector<float> ones(kSize * kSize, 1);
  EXPECT_EQ(Judged("inverse", ones, ones, kSquare), Verdict::kNotCheckable);
}

// A x = b, from the inverse of float32 and from the triangles of a factor.
TEST(LinearAlgebra, SystemsAreSolvedForTheirRightHandSides) {
  const std::vector<float> a = HeavyDiagonal();
  const std::vector<float> x = Random(4);
  std::vector<float> b(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kSize; ++k) {
        sum += static_cast<double>(a[i * kSize + k]) * x[k * kSize + j];
      }
      b[i * kSize + j] = static_cast<float>(sum);
    }
  }
  const auto judged = [&](const std::vector<float>& found) {
    Ranks ranks(1);
    ranks.Add(0, "Torch.solve.0.forward",
              ranks.Leaf(0, "a.npy", a, kSquare) + ", " + ranks.Leaf(0, "b.npy", b, kSquare), "",
              ranks.Leaf(0, "x.npy", found, kSquare));
    return ranks.Check().calls[0].verdict();
  };
  EXPECT_EQ(judged(x), Verdict::kWithin);
  std::vector<float> wrong = x;
  std::swap_ranges(wrong.begin(), wrong.begin() + kSize, wrong.begin() + kSize);
  EXPECT_EQ(judged(wrong), Verdict::kBeyond);
}

// Inverses of random triangles are large, and these solutions are not.
TEST(LinearAlgebra, TrianglesWithLargeInversesAreJudgedInFloat64) {
  constexpr int64_t kRows = 40;
  std::mt19937 engine(7);
  std::normal_distribution<double> draw;
  std::vector<double> a(kRows * kRows);
  std::vector<double> b(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    long double sum = 0;
    for (size_t j = 0; j <= i; ++j) {
      a[i * kRows + j] = draw(engine);
      sum += static_cast<long double>(a[i * kRows + j]) * (j % 2 == 0 ? 1 : -1);
    }
    b[i] = static_cast<double>(sum);
  }
  std::vector<double> x = b;
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < i; ++j) {
      x[i] -= a[i * kRows + j] * x[j];
    }
    x[i] /= a[i * kRows + i];
  }
  const auto judged = [&](const std::vector<double>& found) {
    Ranks ranks(1);
    ranks.Add(0, "Torch.triangular_solve.0.forward",
              ranks.Leaf<double>(0, "b.npy", b, {kRows, 1}) + ", " +
                  ranks.Leaf<double>(0, "a.npy", a, {kRows, kRows}),
              R"("upper": {"type": "bool", "value": false})",
              ranks.Leaf<double>(0, "x.npy", found, {kRows, 1}));
    return ranks.Check().calls[0].verdict();
  };
  EXPECT_EQ(judged(x), Verdict::kWithin);
  x[1] *= 1 + 1e-9;
  EXPECT_EQ(judged(x), Verdict::kBeyond);
}

TEST(LinearAlgebra, TrianglesAreTheHalfThatIsAskedFor) {
  std::vector<float> a = HeavyDiagonal();
  std::vector<float> x(kSize, 0);
  std::vector<float> b(kSize);
  for (size_t i = 0; i < kSize; ++i) {
    b[i] = static_cast<float>(i) - 7;
  }
  for (size_t i = kSize; i-- > 0;) {
    float rest = b[i];
    for (size_t k = i + 1; k < kSize; ++k) {
      rest -= a[i * kSize + k] * x[k];
    }
    x[i] = rest / a[i * kSize + i];
  }
  const auto judged = [&](const std::string& keywords) {
    Ranks ranks(1);
    ranks.Add(0, "Torch.triangular_solve.0.forward",
              ranks.Leaf(0, "b.npy", b, {kSize, 1}) + ", " + ranks.Leaf(0, "a.npy", a, kSquare),
              keywords, ranks.Leaf(0, "x.npy", x, {kSize, 1}));
    return ranks.Check().calls[0].verdict();
  };
  EXPECT_EQ(judged(""), Verdict::kWithin);
  EXPECT_EQ(judged(R"("upper": {"type": "bool", "value": false})"), Verdict::kBeyond);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
