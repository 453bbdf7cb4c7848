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

TEST(Signs, BitsAreThoseOfNumPysPackbitsAndCountedUpToTheLast) {
  std::mt19937 random(6);
  for (size_t length = 0; length <= 257; ++length) {
    std::vector<std::byte> flags[2];
    std::vector<std::byte> bits[2];
    uint64_t different = 0;
    for (size_t side = 0; side < 2; ++side) {
      flags[side].resize(length);
      bits[side].assign((length + 7) / 8, std::byte{0xAA});
      for (std::byte& flag : flags[side]) {
        flag = static_cast<std::byte>(random() % 3);
      }
      PackFlags(flags[side], bits[side]);
    }
    for (size_t i = 0; i < length; ++i) {
      const bool a = flags[0][i] != std::byte{0};
      EXPECT_EQ((bits[0][i / 8] & static_cast<std::byte>(0x80U >> (i % 8))) != std::byte{0}, a);
      different += a != (flags[1][i] != std::byte{0}) ? 1 : 0;
    }
    EXPECT_EQ(CountDifferentBits(bits[0], bits[1], length), different) << length;
    if (length % 8 != 0) {  // what is left of the last byte does not count
      bits[0].back() ^= std::byte{1};
      EXPECT_EQ(CountDifferentBits(bits[0], bits[1], length), different) << length;
    }
  }
}

}  // namespace
}  // namespace msprobe::kernels
