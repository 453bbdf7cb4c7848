#include "src/kernels/matrix_product.h"

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

std::vector<double> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<double> made(count);
  for (double& value : made) {
    value = values(random);
  }
  return made;
}

// One element after the other, each in rising order of depth.
std::vector<double> Naive(size_t rows, size_t columns, size_t depth, const MatrixView& a,
                          const MatrixView& b) {
  std::vector<double> c(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t p = 0; p < depth; ++p) {
        c[i * columns + j] += a.data[i * a.row_stride + p * a.column_stride] *
                              b.data[p * b.row_stride + j * b.column_stride];
      }
    }
  }
  return c;
}

bool AreSameBits(const std::vector<double>& left, const std::vector<double>& right) {
  for (size_t i = 0; i < left.size(); ++i) {
    if (std::bit_cast<uint64_t>(left[i]) != std::bit_cast<uint64_t>(right[i])) {
      return false;
    }
  }
  return left.size() == right.size();
}

class MatrixProduct : public EveryTable {};

struct Shape {
  size_t rows, columns, depth;
};

// Tiles, blocks of depth (256), of rows (96) and of columns (1536), with and without a rest.
TEST_P(MatrixProduct, HasTheBitsOfALoopForEveryShapeOrderAndNumberOfThreads) {
  base::ThreadPool one(1);
  base::ThreadPool three(3);
  const std::vector<Shape> shapes = {{1, 1, 1},     {8, 24, 256},  {7, 23, 257},  {9, 25, 255},
                                     {96, 48, 512}, {97, 50, 513}, {2, 1537, 40}, {3, 3080, 300},
                                     {200, 30, 20}, {1, 100, 700}, {100, 1, 700}, {65, 66, 67}};
  for (const Shape& shape : shapes) {
    const auto [rows, columns, depth] = shape;
    const std::vector<double> left = RandomFloats(rows * (depth + 3), 1);
    const std::vector<double> right = RandomFloats(depth * (columns + 5), 2);
    // Row by row with a gap, column by column, and neither.
    const std::vector<MatrixView> lefts = {{left.data(), depth + 3, 1}, {left.data(), 1, rows}};
    const std::vector<MatrixView> rights = {{right.data(), columns + 5, 1},
                                            {right.data(), 1, depth}};
    for (const MatrixView& a : lefts) {
      for (const MatrixView& b : rights) {
        const std::vector<double> expected = Naive(rows, columns, depth, a, b);
        for (base::ThreadPool* pool : {&one, &three}) {
          std::vector<double> c(rows * columns, 7);
          MultiplyMatrices(rows, columns, depth, a, b, c.data(), *pool);
          ASSERT_TRUE(AreSameBits(c, expected))
              << rows << " x " << depth << " x " << columns << ", strides " << a.row_stride << ", "
              << b.row_stride << ", " << pool->thread_count() << " threads";
        }
      }
    }
  }
}

TEST_P(MatrixProduct, OfElementsFarApartIsThatOfNeighbours) {
  base::ThreadPool pool(1);
  const std::vector<double> left = RandomFloats(3 * 5 * 7 * 9, 3);
  const MatrixView a = {left.data(), 5 * 7, 3};
  const MatrixView b = {left.data() + 1, 7, 2};
  std::vector<double> c(4 * 6);
  MultiplyMatrices(4, 6, 11, a, b, c.data(), pool);
  EXPECT_TRUE(AreSameBits(c, Naive(4, 6, 11, a, b)));
}

TEST_P(MatrixProduct, OfNoDepthIsZero) {
  base::ThreadPool pool(1);
  const double number = 5;
  std::vector<double> c(6, 7);
  MultiplyMatrices(2, 3, 0, {&number, 1, 1}, {&number, 1, 1}, c.data(), pool);
  EXPECT_EQ(c, std::vector<double>(6));
}

MSPROBE_FOR_EVERY_TABLE(MatrixProduct);

}  // namespace
}  // namespace msprobe::kernels
