#include "src/kernels/transpose.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::kernels {
namespace {

TEST(TransposeMatrix, AgreesWithALoopForEverySizeOfElementsRowsAndColumns) {
  std::mt19937 random(7);
  for (const size_t bytes : {1U, 2U, 4U, 8U, 16U}) {
    for (int64_t rows = 0; rows <= 37; ++rows) {
      for (int64_t columns = 0; columns <= 37; columns += 1 + columns / 20) {
        const int64_t from_stride = columns + rows % 3;
        const int64_t to_stride = rows + columns % 4;
        const size_t shift = static_cast<size_t>(rows + columns) % 5;  // any alignment
        std::vector<std::byte> from(static_cast<size_t>(rows * from_stride + 1) * bytes + shift);
        for (std::byte& byte : from) {
          byte = static_cast<std::byte>(random());
        }
        std::vector<std::byte> to(static_cast<size_t>(columns * to_stride + 1) * bytes + shift,
                                  std::byte{0x5A});
        std::vector<std::byte> expected = to;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            std::memcpy(expected.data() + shift + static_cast<size_t>(c * to_stride + r) * bytes,
                        from.data() + shift + static_cast<size_t>(r * from_stride + c) * bytes,
                        bytes);
          }
        }
        TransposeMatrix(bytes, from.data() + shift, from_stride, to.data() + shift, to_stride, rows,
                        columns);
        ASSERT_EQ(to, expected) << bytes << " bytes, " << rows << " x " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::kernels
