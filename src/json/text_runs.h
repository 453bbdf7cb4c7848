// Inside of the room: where runs of ordinary bytes end, sixteen bytes at a time.
#pragma once

#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace msprobe::json::internal {

// First byte in [at, end) that a plain run of a text cannot hold: a quote, a backslash or a control
// character.
inline const char* EndOfPlainRun(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  for (; end - at >= 16; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i special =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash)),
                     _mm_cmpeq_epi8(_mm_max_epu8(block, control), control));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special)); mask != 0) {
      return at + std::countr_zero(mask);
    }
  }
#endif
  while (at != end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) {
    ++at;
  }
  return at;
}

inline const char* EndOfBlanks(const char* at, const char* end) {
#if defined(__SSE2__)
  // Indentation is long in written dumps; one blank between tokens is the other common case.
  const __m128i space = _mm_set1_epi8(' ');
  if (end - at > 16 && *at == '\n') {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 1));
    const unsigned others =
        ~static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, space))) & 0xFFFFU;
    if (others != 0) {
      const char* const behind = at + 1 + std::countr_zero(others);
      if (static_cast<unsigned char>(*behind) > ' ') {
        return behind;
      }
    }
  }
  const __m128i line_feed = _mm_set1_epi8('\n');
  const __m128i carriage_return = _mm_set1_epi8('\r');
  const __m128i tab = _mm_set1_epi8('\t');
  for (; end - at >= 16; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i blank = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(block, space), _mm_cmpeq_epi8(block, line_feed)),
        _mm_or_si128(_mm_cmpeq_epi8(block, carriage_return), _mm_cmpeq_epi8(block, tab)));
    const unsigned others = ~static_cast<unsigned>(_mm_movemask_epi8(blank)) & 0xFFFFU;
    if (others != 0) {
      return at + std::countr_zero(others);
    }
  }
#endif
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
    ++at;
  }
  return at;
}

// The same where mostly one blank or none stands.
inline const char* SkipBlanks(const char* at, const char* end) {
  if (at != end && static_cast<unsigned char>(*at) <= ' ') {
    // One blank stands behind every colon; more only at the start of a line.
    if (*at == ' ' && end - at > 1 && static_cast<unsigned char>(at[1]) > ' ') {
      return at + 1;
    }
    return EndOfBlanks(at, end);
  }
  return at;
}

}  // namespace msprobe::json::internal
