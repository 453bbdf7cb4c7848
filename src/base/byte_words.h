// Texts looked at eight bytes at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace msprobe::base {

// In the order in which they lie in memory.
static_assert(std::endian::native == std::endian::little);
inline constexpr uint64_t kLowBits = 0x0101010101010101U;
inline constexpr uint64_t kHighBits = 0x8080808080808080U;

// The high bit of the first byte of `word` that is `character`; of bytes behind it bits may be set
// by mistake.
constexpr uint64_t MatchesOf(uint64_t word, char character) {
  const uint64_t difference = word ^ (kLowBits * static_cast<unsigned char>(character));
  return (difference - kLowBits) & ~difference & kHighBits;
}

// Not zero where one of the bytes is a control character or none of ASCII.
constexpr uint64_t UnprintableOf(uint64_t word) {
  return ((word | (word - kLowBits * 0x20U)) & kHighBits) | MatchesOf(word, '\x7F');
}

// Whether has_any(word) is zero for all words of the text; the last one is filled with blanks.
template <typename HasAny>
bool NoWordHas(std::string_view text, const HasAny& has_any) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t word = 0;
  for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    if (has_any(word) != 0) {
      return false;
    }
  }
  word = kLowBits * ' ';
  for (size_t i = 0; i < left; ++i) {
    word ^= static_cast<uint64_t>(static_cast<unsigned char>(at[i]) ^ 0x20U) << (8 * i);
  }
  return has_any(word) == 0;
}

}  // namespace msprobe::base
