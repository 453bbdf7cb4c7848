#include "src/kernels/signs.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::kernels {
namespace {

TEST(Signs, FlagsAreCountedAsAPlainLoopCountsThemWhateverStandsForTrue) {
  std::mt19937 random(5);
  const std::byte values[] = {std::byte{0}, std::byte{1}, std::byte{0x80}, std::byte{0xFF},
                              std::byte{0x7F}};
  for (size_t length = 0; length <= 257; ++length) {
    std::vector<std::byte> a(length + 3);
    std::vector<std::byte> b(length + 3);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = values[random() % std::size(values)];
      b[i] = values[random() % std::size(values)];
    }
    for (size_t offset = 0; offset < 3; ++offset) {
      uint64_t expected = 0;
      for (size_t i = 0; i < length; ++i) {
        expected += (a[i + offset] != std::byte{0}) != (b[i + offset] != std::byte{0}) ? 1 : 0;
      }
      EXPECT_EQ(CountDifferentFlags({a.data() + offset, length}, {b.data() + offset, length}),
                expected)
          << length;
    }
  }
}

}  // namespace
}  // namespace msprobe::kernels
