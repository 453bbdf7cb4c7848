#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {
namespace {

// A matrix of float32 0, 1, 2, ... that outlives its views.
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : elements(static_cast<size_t>(rows * columns)) {
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<float>(i);
    }
    view.shape = {rows, columns};
    view.strides = ContiguousStrides(view.shape);
    view.data = reinterpret_cast<const std::byte*>(elements.data());
    view.extent_bytes = elements.size() * sizeof(float);
  }
  std::vector<float> elements;
  TensorView view;
};

// The elements in row-major order; -1 where no piece lies.
std::vector<float> Elements(const Parameter& parameter) {
  std::vector<float> all(static_cast<size_t>(parameter.element_count()), -1);
  const Shape strides = ContiguousStrides(parameter.shape);
  for (const Piece& piece : parameter.pieces) {
    const int64_t count = piece.view.element_count();
    const Shape inner = ContiguousStrides(piece.view.shape);
    for (int64_t i = 0; i < count; ++i) {
      int64_t from = 0;
      int64_t to = 0;
      for (size_t axis = 0; axis < inner.size(); ++axis) {
        const int64_t index = i / inner[axis] % piece.view.shape[axis];
        from += index * piece.view.strides[axis];
        to += (index + piece.offset[axis]) * strides[axis];
      }
      EXPECT_LT(static_cast<size_t>(from) * 4, piece.view.extent_bytes);
      std::memcpy(&all[static_cast<size_t>(to)], piece.view.data + from * 4, 4);
    }
  }
  return all;
}

TEST(Concatenate, JoinsRowsAndColumns) {
  const Matrix matrix(2, 2);
  const Parameter part = MakeParameter("w", matrix.view, 0);
  const std::vector<Parameter> parts = {part, part};
  const Result<Parameter> rows = Concatenate(parts, 0);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->shape, (Shape{4, 2}));
  EXPECT_EQ(Elements(*rows), (std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3}));
  const Result<Parameter> columns = Concatenate(parts, 1);
  ASSERT_TRUE(columns.ok());
  EXPECT_EQ(Elements(*columns), (std::vector<float>{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(Concatenate, RefusesShapesThatDoNotFit) {
  const Matrix wide(2, 3);
  const Matrix narrow(2, 2);
  const std::vector<Parameter> parts = {MakeParameter("w", wide.view, 0),
                                        MakeParameter("w", narrow.view, 0)};
  EXPECT_EQ(Concatenate(parts, 0).status().code(), StatusCode::kBadFormat);
  EXPECT_TRUE(Concatenate(parts, 1).ok());
  EXPECT_EQ(Concatenate(parts, 2).status().code(), StatusCode::kBadFormat);
}

TEST(Slice, CutsAcrossPieces) {
  const Matrix matrix(2, 2);
  const Parameter part = MakeParameter("w", matrix.view, 0);
  const Result<Parameter> joined = Concatenate(std::vector<Parameter>{part, part}, 0);
  ASSERT_TRUE(joined.ok());
  const Result<Parameter> middle = Slice(*joined, 0, 1, 2);
  ASSERT_TRUE(middle.ok());
  EXPECT_EQ(Elements(*middle), (std::vector<float>{2, 3, 0, 1}));
  EXPECT_EQ(Slice(*joined, 0, 3, 2).status().code(), StatusCode::kBadFormat);
}

TEST(Transpose, TurnsPiecesAndTheirPlaces) {
  const Matrix matrix(2, 3);
  const Parameter part = MakeParameter("w", matrix.view, 0);
  const Result<Parameter> joined = Concatenate(std::vector<Parameter>{part, part}, 0);
  ASSERT_TRUE(joined.ok());
  const Result<Parameter> turned = Transpose(*joined);
  ASSERT_TRUE(turned.ok());
  EXPECT_EQ(turned->shape, (Shape{3, 4}));
  EXPECT_EQ(Elements(*turned), (std::vector<float>{0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5}));
}

TEST(Select, TakesOneOfAStack) {
  const Matrix matrix(3, 2);
  const Result<Parameter> second = Select(MakeParameter("w", matrix.view, 0), 1);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->shape, (Shape{2}));
  EXPECT_EQ(Elements(*second), (std::vector<float>{2, 3}));
}

TEST(CheckTiling, NamesGapsOverlapsAndPiecesOutside) {
  const Matrix matrix(2, 2);
  Parameter parameter;
  parameter.name = "w";
  parameter.shape = {4, 2};
  parameter.pieces = {{matrix.view, {2, 0}, 0}, {matrix.view, {0, 0}, 0}};
  ASSERT_TRUE(CheckTiling(parameter).ok());
  EXPECT_EQ(parameter.pieces.front().offset, (Shape{0, 0}));

  Parameter gap = parameter;
  gap.pieces.pop_back();
  EXPECT_NE(CheckTiling(gap).message().find("4 of 8 elements are missing"), std::string::npos);
  Parameter overlap = parameter;
  overlap.pieces.back().offset = {1, 0};
  EXPECT_NE(CheckTiling(overlap).message().find("overlap"), std::string::npos);
  Parameter outside = parameter;
  outside.pieces.back().offset = {INT64_MAX, 0};
  EXPECT_NE(CheckTiling(outside).message().find("outside"), std::string::npos);
}

TEST(Concatenate, RefusesAWholeWhoseElementsCannotBeCounted) {
  Parameter empty;
  empty.name = "w";
  empty.shape = {INT64_MAX, 0};
  EXPECT_FALSE(Concatenate(std::vector<Parameter>(3, empty), 0).ok());
  Parameter unreadable;
  unreadable.name = "w";
  unreadable.shape = {int64_t{1} << 40U, int64_t{1} << 20U};
  unreadable.status = BadFormatError("no bytes");
  EXPECT_TRUE(Concatenate(std::vector<Parameter>(1, unreadable), 0).ok());
  EXPECT_FALSE(Concatenate(std::vector<Parameter>(4, unreadable), 0).ok());
}

TEST(CheckTiling, AMillionColumnsCostNoSquare) {
  const Matrix matrix(1, 1);
  Parameter parameter;
  parameter.name = "w";
  constexpr int64_t kColumns = 1'000'000;
  parameter.shape = {1, kColumns};
  for (int64_t i = 0; i < kColumns; ++i) {
    parameter.pieces.push_back({matrix.view, {0, i}, 0});
  }
  EXPECT_TRUE(CheckTiling(parameter).ok());
  // The same number of elements, one of them twice.
  parameter.pieces[3].offset[1] = 2;
  const Status status = CheckTiling(parameter);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("overlap"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace msprobe::checkpoint
