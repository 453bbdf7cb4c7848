#include "src/kernels/transpose.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace msprobe::kernels {
namespace {

// Vectors of 16 bytes, which every 64-bit machine has.
typedef uint8_t Vector8 __attribute__((vector_size(16)));
typedef uint16_t Vector16 __attribute__((vector_size(16)));
typedef uint32_t Vector32 __attribute__((vector_size(16)));
typedef uint64_t Vector64 __attribute__((vector_size(16)));
// And half of them, for matrices too small for whole ones.
typedef uint8_t Half8 __attribute__((vector_size(8)));
typedef uint16_t Half16 __attribute__((vector_size(8)));
typedef uint32_t Half32 __attribute__((vector_size(8)));

// Elements of both in turn, of the lower or the upper halves.
template <bool kUpper, typename Vector, size_t... kPlace>
Vector Zip(Vector a, Vector b, std::index_sequence<kPlace...>) {
  constexpr size_t kCount = sizeof...(kPlace);
  constexpr size_t kFirst = kUpper ? kCount / 2 : 0;
  return __builtin_shufflevector(a, b,
                                 static_cast<int>(kFirst + kPlace / 2 + (kPlace % 2) * kCount)...);
}

// As many columns as a vector has elements, of as many rows (a square) or half as many. Zipping row
// i with row i + kRows / 2 moves the highest bit of a row's number to the lowest bit of the
// column's; after log2(kRows) times all bits of the row's have done so, and a vector holds one
// whole column of a square, two of a half one.
template <typename Element, typename Vector, size_t kRows>
inline void TransposeTile(const std::byte* from, int64_t from_stride, std::byte* to,
                          int64_t to_stride) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  constexpr size_t kCount = sizeof(Vector) / sizeof(Element);
  constexpr auto kPlaces = std::make_index_sequence<kCount>();
  constexpr size_t kColumnBytes = kRows * sizeof(Element);
  std::array<Vector, kRows> rows;
  for (size_t i = 0; i < kRows; ++i) {
    std::memcpy(&rows[i], from + static_cast<int64_t>(i) * from_stride * kSize, sizeof(Vector));
  }
  for (size_t step = 1; step < kRows; step *= 2) {
    std::array<Vector, kRows> zipped;
    for (size_t i = 0; i < kRows / 2; ++i) {
      zipped[2 * i] = Zip<false>(rows[i], rows[i + kRows / 2], kPlaces);
      zipped[2 * i + 1] = Zip<true>(rows[i], rows[i + kRows / 2], kPlaces);
    }
    rows = zipped;
  }
  for (size_t column = 0; column < kCount; ++column) {
    constexpr size_t kPerVector = sizeof(Vector) / kColumnBytes;
    std::memcpy(to + static_cast<int64_t>(column) * to_stride * kSize,
                reinterpret_cast<const std::byte*>(&rows[column / kPerVector]) +
                    column % kPerVector * kColumnBytes,
                kColumnBytes);
  }
}

template <typename Element>
void TransposeSingly(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                     int64_t rows, int64_t columns) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + (c * to_stride + r) * kSize, from + (r * from_stride + c) * kSize,
                  sizeof(Element));
    }
  }
}

// In tiles. A single row behind them, of a window of 3 x 3, 5 x 5, ..., is copied as it is;
// otherwise the last tile of a row and of a column reaches back over elements that are copied
// already.
template <typename Element, typename Vector, int64_t kRows>
void TransposeInTiles(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                      int64_t rows, int64_t columns) {
  constexpr auto kColumns = static_cast<int64_t>(sizeof(Vector) / sizeof(Element));
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  const int64_t in_tiles = rows % kRows == 1 ? rows - 1 : rows;
  for (int64_t row = 0; row < in_tiles; row += kRows) {
    const int64_t r = std::min(row, in_tiles - kRows);
    for (int64_t column = 0; column < columns; column += kColumns) {
      const int64_t c = std::min(column, columns - kColumns);
      TransposeTile<Element, Vector, kRows>(from + (r * from_stride + c) * kSize, from_stride,
                                            to + (c * to_stride + r) * kSize, to_stride);
    }
  }
  if (in_tiles < rows) {
    TransposeSingly<Element>(from + in_tiles * from_stride * kSize, from_stride,
                             to + in_tiles * kSize, to_stride, 1, columns);
  }
}

// With the largest tiles of which the matrix has one; `Smaller` is half a vector.
template <typename Element, typename Vector, typename... Smaller>
void Transpose(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
               int64_t rows, int64_t columns) {
  constexpr auto kCount = static_cast<int64_t>(sizeof(Vector) / sizeof(Element));
  if (columns >= kCount && rows >= kCount) {
    TransposeInTiles<Element, Vector, kCount>(from, from_stride, to, to_stride, rows, columns);
  } else if (kCount > 2 && columns >= kCount && rows >= kCount / 2) {
    TransposeInTiles<Element, Vector, kCount / 2>(from, from_stride, to, to_stride, rows, columns);
  } else if constexpr (sizeof...(Smaller) > 0) {
    Transpose<Element, Smaller...>(from, from_stride, to, to_stride, rows, columns);
  } else {
    TransposeSingly<Element>(from, from_stride, to, to_stride, rows, columns);
  }
}

}  // namespace

void TransposeMatrix(size_t element_bytes, const std::byte* from, int64_t from_stride,
                     std::byte* to, int64_t to_stride, int64_t rows, int64_t columns) {
  switch (element_bytes) {
    case 1:
      return Transpose<uint8_t, Vector8, Half8>(from, from_stride, to, to_stride, rows, columns);
    case 2:
      return Transpose<uint16_t, Vector16, Half16>(from, from_stride, to, to_stride, rows, columns);
    case 4:
      return Transpose<uint32_t, Vector32, Half32>(from, from_stride, to, to_stride, rows, columns);
    case 8:
      return Transpose<uint64_t, Vector64>(from, from_stride, to, to_stride, rows, columns);
    default:
      return TransposeSingly<std::array<std::byte, 16>>(from, from_stride, to, to_stride, rows,
                                                        columns);
  }
}

}  // namespace msprobe::kernels
