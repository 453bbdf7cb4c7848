#include "src/kernels/crc32.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::kernels {
namespace {

TEST(Crc32, MatchesThePublishedCheckValue) { EXPECT_EQ(Crc32("123456789"), 0xCBF43926U); }

TEST(Crc32, OfNothingIsZero) {
  EXPECT_EQ(Crc32(std::string_view()), 0U);
  EXPECT_EQ(Crc32(std::span<const std::byte>(), 0x1234U), 0x1234U);
}

TEST(Crc32, OfZerosIsNotZero) { EXPECT_EQ(Crc32(std::string_view("\0\0\0\0", 4)), 0x2144DF1CU); }

TEST(Crc32, ContinuesFromASeed) {
  const std::string_view text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(Crc32(text), 0x414FA339U);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const auto rest = std::as_bytes(std::span(text.substr(cut)));
    EXPECT_EQ(Crc32(rest, Crc32(text.substr(0, cut))), 0x414FA339U) << cut;
  }
}

uint32_t BitByBit(std::span<const std::byte> data, uint32_t seed) {
  uint32_t crc = ~seed;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0xEDB88320U : crc >> 1U;
    }
  }
  return ~crc;
}

TEST(Crc32, AgreesWithTheDefinitionAtAnyLengthAndPlace) {
  std::vector<std::byte> bytes(3000);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24U);
  }
  const std::span<const std::byte> all = bytes;
  for (size_t offset = 0; offset < 70; offset += 23) {
    for (size_t length = 0; length < 2900; length += 1 + length / 40) {
      const auto part = all.subspan(offset, length);
      const uint32_t seed = length % 3 == 0 ? 0 : static_cast<uint32_t>(length) * 2654435761U;
      ASSERT_EQ(Crc32(part, seed), BitByBit(part, seed)) << offset << " " << length;
      if (internal::HasWideCrc() && length >= internal::kWideCrcFromBytes) {
        ASSERT_EQ(internal::WideCrc32(part, seed), BitByBit(part, seed)) << offset << " " << length;
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::kernels
