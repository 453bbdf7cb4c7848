// Products of float32 tensors whose factors a matrix unit rounded to TF32 or HF32: they are
// explained, unless that is forbidden, and what is wrong beside them is still called.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

// What a matrix unit takes a factor for.
using Factor = std::function<float(float)>;

uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }
float Exact(float x) { return x; }
float TruncatedTf32(float x) { return std::bit_cast<float>(BitsOf(x) & ~0x1FFFU); }
float NearestTf32(float x) { return std::bit_cast<float>((BitsOf(x) + 0x1000U) & ~0x1FFFU); }
float TruncatedHf32(float x) { return std::bit_cast<float>(BitsOf(x) & ~0xFFFU); }

struct Matrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<float> numbers;

  Matrix(size_t of_rows, size_t of_columns)
      : rows(of_rows), columns(of_columns), numbers(of_rows * of_columns) {}
  float& at(size_t i, size_t j) { return numbers[i * columns + j]; }
  float at(size_t i, size_t j) const { return numbers[i * columns + j]; }
  Shape shape() const { return {static_cast<int64_t>(rows), static_cast<int64_t>(columns)}; }
};

Matrix Random(size_t rows, size_t columns, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw(0, 1);
  Matrix matrix(rows, columns);
  for (float& number : matrix.numbers) {
    number = draw(engine);
  }
  return matrix;
}

Matrix Transposed(const Matrix& x) {
  Matrix out(x.columns, x.rows);
  for (size_t i = 0; i < out.rows; ++i) {
    for (size_t j = 0; j < out.columns; ++j) {
      out.at(i, j) = x.at(j, i);
    }
  }
  return out;
}

// a b, with sums in float32.
Matrix Product(const Matrix& a, const Matrix& b, const Factor& factor) {
  Matrix out(a.rows, b.columns);
  for (size_t i = 0; i < out.rows; ++i) {
    for (size_t j = 0; j < out.columns; ++j) {
      for (size_t p = 0; p < a.columns; ++p) {
        out.at(i, j) += factor(a.at(i, p)) * factor(b.at(p, j));
      }
    }
  }
  return out;
}

Matrix Scaled(Matrix x, float scale) {
  for (float& number : x.numbers) {
    number *= scale;
  }
  return x;
}

Matrix SoftmaxOfRows(Matrix x) {
  for (size_t i = 0; i < x.rows; ++i) {
    const auto row = x.numbers.begin() + static_cast<std::ptrdiff_t>(i * x.columns);
    const auto end = row + static_cast<std::ptrdiff_t>(x.columns);
    const float largest = *std::max_element(row, end);
    std::transform(row, end, row, [&](float number) { return std::exp(number - largest); });
    const float sum = std::accumulate(row, end, 0.0F);
    std::transform(row, end, row, [&](float number) { return number / sum; });
  }
  return x;
}

// A call and its results as a device would compute them.
struct MadeCall {
  std::string name;  // "Functional.linear.0"
  std::vector<Matrix> inputs;
  std::string keywords;
  std::vector<Shape> input_shapes;  // empty: those of the matrices
  Shape output_shape;
  std::function<Matrix(const Factor&)> forward;
  Matrix incoming{0, 0};
  std::function<std::vector<Matrix>(const Factor&)> backward;  // null: not captured
};

MadeCall Linear(size_t rows, size_t depth, size_t columns) {
  const Matrix x = Random(rows, depth, 1);
  const Matrix weight = Random(columns, depth, 2);
  const Matrix gradient = Random(rows, columns, 3);
  return {"Functional.linear.0",
          {x, weight},
          "",
          {},
          {static_cast<int64_t>(rows), static_cast<int64_t>(columns)},
          [=](const Factor& factor) { return Product(x, Transposed(weight), factor); },
          gradient,
          [=](const Factor& factor) {
            return std::vector<Matrix>{Product(gradient, weight, factor),
                                       Product(Transposed(gradient), x, factor)};
          }};
}

MadeCall MatMul(size_t rows, size_t depth, size_t columns) {
  const Matrix a = Random(rows, depth, 4);
  const Matrix b = Random(depth, columns, 5);
  const Matrix gradient = Random(rows, columns, 6);
  return {"Torch.matmul.0",
          {a, b},
          "",
          {},
          {static_cast<int64_t>(rows), static_cast<int64_t>(columns)},
          [=](const Factor& factor) { return Product(a, b, factor); },
          gradient,
          [=](const Factor& factor) {
            return std::vector<Matrix>{Product(gradient, Transposed(b), factor),
                                       Product(Transposed(a), gradient, factor)};
          }};
}

// One image of 3 channels of 20 x 20, 4 filters of 3 x 3, padded by 1.
MadeCall Conv2d() {
  constexpr size_t kChannels = 3, kSide = 20, kFilters = 4, kKernel = 3;
  const Matrix image = Random(kChannels, kSide * kSide, 7);
  const Matrix filters = Random(kFilters, kChannels * kKernel * kKernel, 8);
  Matrix windows(kChannels * kKernel * kKernel, kSide * kSide);
  for (size_t row = 0; row < windows.rows; ++row) {
    for (size_t place = 0; place < windows.columns; ++place) {
      const size_t y = place / kSide + row / kKernel % kKernel;  // both counted with the padding
      const size_t x = place % kSide + row % kKernel;
      if (y >= 1 && y <= kSide && x >= 1 && x <= kSide) {
        windows.at(row, place) = image.at(row / (kKernel * kKernel), (y - 1) * kSide + x - 1);
      }
    }
  }
  const Matrix gradient = Random(kFilters, kSide * kSide, 9);
  return {"Functional.conv2d.0",
          {image, filters},
          R"("padding": )" + Integer(1),
          {{1, kChannels, kSide, kSide}, {kFilters, kChannels, kKernel, kKernel}},
          {1, kFilters, kSide, kSide},
          [=](const Factor& factor) { return Product(filters, windows, factor); },
          gradient,
          [=](const Factor& factor) {
            // Where a window began an element is, every window adds to it.
            const Matrix of_windows = Product(Transposed(filters), gradient, factor);
            Matrix of_image(kChannels, kSide * kSide);
            for (size_t row = 0; row < windows.rows; ++row) {
              for (size_t place = 0; place < windows.columns; ++place) {
                const size_t y = place / kSide + row / kKernel % kKernel;
                const size_t x = place % kSide + row % kKernel;
                if (y >= 1 && y <= kSide && x >= 1 && x <= kSide) {
                  of_image.at(row / (kKernel * kKernel), (y - 1) * kSide + x - 1) +=
                      of_windows.at(row, place);
                }
              }
            }
            return std::vector<Matrix>{of_image, Product(gradient, Transposed(windows), factor)};
          }};
}

MadeCall Attention() {
  constexpr size_t kLength = 32, kWidth = 32;
  const Matrix q = Random(kLength, kWidth, 10);
  const Matrix k = Random(kLength, kWidth, 11);
  const Matrix v = Random(kLength, kWidth, 12);
  const Matrix gradient = Random(kLength, kWidth, 13);
  const float scale = 1 / std::sqrt(static_cast<float>(kWidth));
  const auto weights = [=](const Factor& factor) {
    return SoftmaxOfRows(Scaled(Product(q, Transposed(k), factor), scale));
  };
  return {"Functional.scaled_dot_product_attention.0",
          {q, k, v},
          "",
          {},
          {kLength, kWidth},
          [=](const Factor& factor) { return Product(weights(factor), v, factor); },
          gradient,
          [=](const Factor& factor) {
            const Matrix p = weights(factor);
            Matrix scores = Product(gradient, Transposed(v), factor);
            for (size_t i = 0; i < kLength; ++i) {
              float mean = 0;
              for (size_t j = 0; j < kLength; ++j) {
                mean += scores.at(i, j) * p.at(i, j);
              }
              for (size_t j = 0; j < kLength; ++j) {
                scores.at(i, j) = p.at(i, j) * (scores.at(i, j) - mean) * scale;
              }
            }
            return std::vector<Matrix>{Product(scores, k, factor),
                                       Product(Transposed(scores), q, factor),
                                       Product(Transposed(p), gradient, factor)};
          }};
}

std::vector<MadeCall> AllCalls() {
  return {Linear(40, 48, 36), MatMul(40, 56, 40), Conv2d(), Attention()};
}

using Change = std::function<void(Matrix& result)>;

// The verdicts of the halves of a call whose results were computed with such factors, and then
// changed.
std::vector<CallVerdict> VerdictsOf(const MadeCall& call, const Factor& factor,
                                    const Precision& precision = {},
                                    const Change& change = nullptr) {
  Ranks dump(1);
  const auto leaf = [&](const std::string& file, const Matrix& matrix, const Shape& shape) {
    return dump.Leaf(0, file + ".npy", matrix.numbers, shape);
  };
  const auto changed = [&](Matrix matrix) {
    if (change) {
      change(matrix);
    }
    return matrix;
  };
  std::string inputs;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    shapes.push_back(call.input_shapes.empty() ? call.inputs[i].shape() : call.input_shapes[i]);
    inputs += (i == 0 ? "" : ", ") + leaf(fmt::format("in{}", i), call.inputs[i], shapes[i]);
  }
  dump.Add(0, call.name + ".forward", inputs, call.keywords,
           leaf("out", changed(call.forward(factor)), call.output_shape));
  const std::vector<Matrix> gradients = call.backward(factor);
  std::string outgoing;
  for (size_t i = 0; i < gradients.size(); ++i) {
    outgoing +=
        (i == 0 ? "" : ", ") + leaf(fmt::format("gradient{}", i), changed(gradients[i]), shapes[i]);
  }
  dump.AddBackward(0, call.name + ".backward", leaf("incoming", call.incoming, call.output_shape),
                   outgoing);
  std::vector<CallVerdict> verdicts;
  for (const CheckedCall& checked : dump.Check(precision).calls) {
    verdicts.push_back(checked.checked());
  }
  EXPECT_EQ(verdicts.size(), 2U) << call.name;
  return verdicts;
}

constexpr Precision kFloat32Factors = {.factors = ProductFactors::kFloat32};

TEST(RoundedFactors, ExplainProductsForwardAndBackwardUnlessForbidden) {
  for (const MadeCall& call : AllCalls()) {
    for (const Factor& factor :
         {Factor(TruncatedTf32), Factor(NearestTf32), Factor(TruncatedHf32)}) {
      for (const CallVerdict& verdict : VerdictsOf(call, factor)) {
        EXPECT_EQ(verdict.verdict, Verdict::kWithin) << call.name << ", ratio " << verdict.ratio;
        EXPECT_TRUE(verdict.is_less_exact) << call.name;
        EXPECT_EQ(verdict.reason, "only if its factors are rounded to TF32 or HF32");
      }
      for (const CallVerdict& verdict : VerdictsOf(call, factor, kFloat32Factors)) {
        EXPECT_EQ(verdict.verdict, Verdict::kBeyond) << call.name;
      }
    }
  }
}

TEST(RoundedFactors, AreNotNamedWhereFloat32Explains) {
  for (const MadeCall& call : AllCalls()) {
    for (const CallVerdict& verdict : VerdictsOf(call, Exact)) {
      EXPECT_EQ(verdict.verdict, Verdict::kWithin) << call.name << ", ratio " << verdict.ratio;
      EXPECT_FALSE(verdict.is_less_exact) << call.name;
    }
  }
}

TEST(RoundedFactors, DoNotHideAWrongElement) {
  const auto wrong = [](Matrix& result) {
    float largest = 0;
    for (const float number : result.numbers) {
      largest = std::max(largest, std::fabs(number));
    }
    result.at(1, 2) = -1.5F * largest - 1;
  };
  for (const MadeCall& call : AllCalls()) {
    for (const Factor& factor : {Factor(TruncatedTf32), Factor(NearestTf32), Factor(Exact)}) {
      for (const CallVerdict& verdict : VerdictsOf(call, factor, {}, wrong)) {
        EXPECT_EQ(verdict.verdict, Verdict::kBeyond) << call.name;
        EXPECT_FALSE(verdict.is_less_exact) << call.name;
      }
    }
  }
}

// It is off by no more than TF32 may be, but the others are not off at all.
TEST(RoundedFactors, AreNoReasonForOneElementAmongExactOnes) {
  const auto slightly = [](Matrix& result) { result.at(1, 2) += 0.01F; };
  const std::vector<CallVerdict> verdicts = VerdictsOf(MatMul(40, 56, 40), Exact, {}, slightly);
  EXPECT_EQ(verdicts[0].verdict, Verdict::kBeyond);
  EXPECT_EQ(verdicts[0].worst()->element, "[1, 2]");
  EXPECT_EQ(verdicts[0].worst()->beyond, 1U);
}

// The longer the sums, the wider the bounds of float32, until they hold nearly all errors of TF32:
// the few that are beyond do not stand out from the others.
TEST(RoundedFactors, ExplainWhereFewElementsAreBeyondFloat32) {
  bool were_few = false;
  for (size_t depth = 200; depth <= 1400; depth += 100) {
    const MadeCall call = MatMul(40, depth, 40);
    const CallVerdict strict = VerdictsOf(call, NearestTf32, kFloat32Factors)[0];
    ASSERT_NE(strict.worst(), nullptr);
    were_few = were_few || (strict.worst()->beyond > 0 && strict.worst()->beyond < 16);
    const CallVerdict verdict = VerdictsOf(call, NearestTf32)[0];
    EXPECT_EQ(verdict.verdict, Verdict::kWithin)
        << "sums of " << depth << ": " << strict.worst()->beyond << " beyond, ratio "
        << strict.ratio;
  }
  EXPECT_TRUE(were_few);
}

TEST(RoundedFactors, AreNoReasonInFloat64NorWithoutProducts) {
  constexpr size_t kSide = 40;
  const Matrix a = Random(kSide, kSide, 14);
  const Matrix b = Random(kSide, kSide, 15);
  const Matrix product = Product(a, b, NearestTf32);
  Matrix sum(kSide, kSide);
  for (size_t i = 0; i < sum.numbers.size(); ++i) {
    sum.numbers[i] = NearestTf32(a.numbers[i]) + NearestTf32(b.numbers[i]);
  }
  Ranks dump(1);
  const auto wide = [&](const std::string& file, const Matrix& matrix) {
    return dump.Leaf<double>(0, file, {matrix.numbers.begin(), matrix.numbers.end()},
                             matrix.shape());
  };
  dump.Add(0, "Torch.matmul.0.forward", wide("a64.npy", a) + ", " + wide("b64.npy", b), "",
           wide("product64.npy", product));
  const auto narrow = [&](const std::string& file, const Matrix& matrix) {
    return dump.Leaf(0, file, matrix.numbers, matrix.shape());
  };
  dump.Add(0, "Torch.add.0.forward", narrow("a.npy", a) + ", " + narrow("b.npy", b), "",
           narrow("sum.npy", sum));
  const Answer answer = dump.Check();
  ASSERT_EQ(answer.calls.size(), 2U);
  EXPECT_EQ(answer.beyond, 2U);
  EXPECT_EQ(answer.less_exact, 0U);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
