// What matters in 64 bytes of JSON to a reader that only looks for the ends of objects: a bit per
// byte, the first byte's lowest. Most bytes of a trace are neither quote nor backslash nor bracket;
// with bits, a loop over the set ones passes by the others.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace msprobe::profile {

inline constexpr size_t kJsonBlockBytes = 64;

struct JsonPlaces {
  uint64_t quotes = 0;
  uint64_t backslashes = 0;
  uint64_t brackets = 0;  // of lists and objects, opening and closing
};

namespace internal {

// The bits of the bytes of `word` that equal `wanted`.
inline uint64_t EqualBytes(uint64_t word, char wanted) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  const uint64_t others = word ^ (kOnes * static_cast<unsigned char>(wanted));
  const uint64_t equal = ~(((others & kLow) + kLow) | others) & ~kLow;  // 0x80 where equal
  // Carries the eight flags, each to a bit of its own, into the highest byte.
  return ((equal >> 7U) * 0x0102040810204080) >> 56U;
}

inline JsonPlaces FindPlacesByWords(const char* text) {
  static_assert(std::endian::native == std::endian::little);
  constexpr uint64_t kLowerBits = 0x2020202020202020;  // turn [ and ] into { and }
  JsonPlaces places;
  for (unsigned at = 0; at < kJsonBlockBytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text + at, sizeof word);
    const uint64_t folded = word | kLowerBits;
    places.quotes |= EqualBytes(word, '"') << at;
    places.backslashes |= EqualBytes(word, '\\') << at;
    places.brackets |= (EqualBytes(folded, '{') | EqualBytes(folded, '}')) << at;
  }
  return places;
}

}  // namespace internal

inline JsonPlaces FindPlaces(const char* text) {
#if defined(__SSE2__)
  const __m128i lower = _mm_set1_epi8(0x20);
  const auto bits = [](__m128i flags) {
    return static_cast<uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(flags)));
  };
  JsonPlaces places;
  for (unsigned at = 0; at < kJsonBlockBytes; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
    const __m128i folded = _mm_or_si128(block, lower);
    places.quotes |= bits(_mm_cmpeq_epi8(block, _mm_set1_epi8('"'))) << at;
    places.backslashes |= bits(_mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))) << at;
    places.brackets |= bits(_mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                                         _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))))
                       << at;
  }
  return places;
#else
  return internal::FindPlacesByWords(text);
#endif
}

// Where the reader stands between two blocks.
struct TextState {
  bool in_text = false;
  bool escaped = false;  // the next byte stands behind a backslash
};

// The bits of brackets that stand outside of texts; moves `state` behind the block.
inline uint64_t BracketsOutsideTexts(const JsonPlaces& places, TextState& state) {
  uint64_t escaped = state.escaped ? 1 : 0;
  uint64_t backslashes = places.backslashes & ~escaped;
  state.escaped = false;
  while (backslashes != 0) {  // each takes the byte behind it
    const uint64_t first = backslashes & (~backslashes + 1);
    const uint64_t behind = first << 1U;
    state.escaped = behind == 0;
    escaped |= behind;
    backslashes &= ~(first | behind);
  }
  // A bit is set when the number of quotes up to its byte is odd.
  uint64_t inside = places.quotes & ~escaped;
  for (unsigned step = 1; step < kJsonBlockBytes; step *= 2) {
    inside ^= inside << step;
  }
  if (state.in_text) {
    inside = ~inside;
  }
  state.in_text = (inside >> 63U) != 0;
  return places.brackets & ~inside;
}

}  // namespace msprobe::profile
