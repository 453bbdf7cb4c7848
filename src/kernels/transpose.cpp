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
// And half of them, for matrices that are smaller than a square of whole ones.
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

// A square of as many rows as a vector has elements. Zipping row i with row i + n / 2 moves the
// highest bit of a row's number to the lowest bit of the column's; after log2(n) times all bits
// have changed places.
template <typename Element, typename Vector>
inline void TransposeSquare(const std::byte* from, int64_t from_stride, std::byte* to,
                            int64_t to_stride) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  constexpr size_t kCount = sizeof(Vector) / sizeof(Element);
  constexpr auto kPlaces = std::make_index_sequence<kCount>();
  std::array<Vector, kCount> rows;
  for (size_t i = 0; i < kCount; ++i) {
    std::memcpy(&rows[i], from + static_cast<int64_t>(i) * from_stride * kSize, sizeof(Vector));
  }
  for (size_t step = 1; step < kCount; step *= 2) {
    std::array<Vector, kCount> zipped;
    for (size_t i = 0; i < kCount / 2; ++i) {
      zipped[2 * i] = Zip<false>(rows[i], rows[i + kCount / 2], kPlaces);
      zipped[2 * i + 1] = Zip<true>(rows[i], rows[i + kCount / 2], kPlaces);
    }
    rows = zipped;
  }
  for (size_t i = 0; i < kCount; ++i) {
    std::memcpy(to + static_cast<int64_t>(i) * to_stride * kSize, &rows[i], sizeof(Vector));
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

// In squares of the first kind of vectors of which the matrix has one.
template <typename Element, typename Vector, typename... Smaller>
void Transpose(const std::byte* from_bytes, int64_t from_stride, std::byte* to_bytes,
               int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr auto kCount = static_cast<int64_t>(sizeof(Vector) / sizeof(Element));
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  if (rows < kCount || columns < kCount) {
    if constexpr (sizeof...(Smaller) > 0) {
      Transpose<Element, Smaller...>(from_bytes, from_stride, to_bytes, to_stride, rows, columns);
    } else {
      TransposeSingly<Element>(from_bytes, from_stride, to_bytes, to_stride, rows, columns);
    }
    return;
  }
  // A single row behind the squares, of a window of 3 x 3, 5 x 5, ..., is copied as it is;
  // otherwise the last square of a row and of a column reaches back over elements that are copied
  // already.
  const int64_t in_squares = rows % kCount == 1 ? rows - 1 : rows;
  for (int64_t row = 0; row < in_squares; row += kCount) {
    const int64_t r = std::min(row, in_squares - kCount);
    for (int64_t column = 0; column < columns; column += kCount) {
      const int64_t c = std::min(column, columns - kCount);
      TransposeSquare<Element, Vector>(from_bytes + (r * from_stride + c) * kSize, from_stride,
                                       to_bytes + (c * to_stride + r) * kSize, to_stride);
    }
  }
  TransposeSingly<Element>(from_bytes + in_squares * from_stride * kSize, from_stride,
                           to_bytes + in_squares * kSize, to_stride, rows - in_squares, columns);
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
