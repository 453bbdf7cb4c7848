#include <libdeflate.h>

#include "src/kernels/crc32.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace msprobe::kernels::internal {

#if defined(__x86_64__)
namespace {

// x^exponent modulo the CRC's polynomial, bit-reflected and moved up by one, as the products of
// reflected operands need it.
constexpr uint64_t Power(unsigned exponent) {
  uint32_t power = 0x80000000U;  // x^0
  for (unsigned i = 0; i < exponent; ++i) {
    power = (power & 1U) != 0 ? (power >> 1U) ^ 0xEDB88320U : power >> 1U;
  }
  return static_cast<uint64_t>(power) << 1U;
}

// The constants that move 128 bits of the message forward by `bits`: their first half and their
// second half are multiplied by one of these each.
struct Fold {
  uint64_t first_half;
  uint64_t second_half;
};
constexpr Fold FoldBy(unsigned bits) { return {Power(bits + 32), Power(bits - 32)}; }
// As published for processors with 128-bit multiplications (Gopal and others, Intel, 2009).
static_assert(FoldBy(128).first_half == 0x1751997d0 && FoldBy(128).second_half == 0xccaa009e);
static_assert(FoldBy(512).first_half == 0x154442bd4 && FoldBy(512).second_half == 0x1c6e41596);

constexpr size_t kVectorBytes = 64;
constexpr size_t kVectors = 4;
constexpr size_t kStepBytes = kVectorBytes * kVectors;

#define MSPROBE_WIDE_CRC __attribute__((target("avx512f,avx512vl,pclmul,vpclmulqdq")))

MSPROBE_WIDE_CRC inline __m512i Folded(__m512i value, __m512i fold, __m512i next) {
  const __m512i first = _mm512_clmulepi64_epi128(value, fold, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(value, fold, 0x11);
  return _mm512_ternarylogic_epi64(first, second, next, 0x96);
}

MSPROBE_WIDE_CRC inline __m128i Folded(__m128i value, __m128i fold, __m128i next) {
  const __m128i first = _mm_clmulepi64_si128(value, fold, 0x00);
  const __m128i second = _mm_clmulepi64_si128(value, fold, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

MSPROBE_WIDE_CRC inline __m128i Constants(Fold fold) {
  return _mm_set_epi64x(static_cast<int64_t>(fold.second_half),
                        static_cast<int64_t>(fold.first_half));
}

MSPROBE_WIDE_CRC inline __m512i WideConstants(Fold fold) {
  const auto first = static_cast<int64_t>(fold.first_half);
  const auto second = static_cast<int64_t>(fold.second_half);
  return _mm512_set4_epi64(second, first, second, first);
}

}  // namespace

bool HasWideCrc() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  }();
  return has;
}

MSPROBE_WIDE_CRC uint32_t WideCrc32(std::span<const std::byte> data, uint32_t seed) {
  const std::byte* at = data.data();
  const std::byte* const end = at + data.size();
  __m512i lanes[kVectors];
  for (size_t i = 0; i < kVectors; ++i) {
    lanes[i] = _mm512_loadu_si512(at + i * kVectorBytes);
  }
  at += kStepBytes;
  lanes[0] = _mm512_xor_si512(
      lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(~seed))));

  const __m512i by_step = WideConstants(FoldBy(8 * kStepBytes));
  while (static_cast<size_t>(end - at) >= kStepBytes) {
    for (size_t i = 0; i < kVectors; ++i) {
      lanes[i] = Folded(lanes[i], by_step, _mm512_loadu_si512(at + i * kVectorBytes));
    }
    at += kStepBytes;
  }

  // Four vectors to one, that one to 128 bits.
  const __m512i by_vector = WideConstants(FoldBy(8 * kVectorBytes));
  __m512i rest = lanes[0];
  for (size_t i = 1; i < kVectors; ++i) {
    rest = Folded(rest, by_vector, lanes[i]);
  }
  const __m128i by_lane = Constants(FoldBy(128));
  alignas(kVectorBytes) __m128i parts[4];
  _mm512_store_si512(parts, rest);
  __m128i last = parts[0];
  for (size_t i = 1; i < 4; ++i) {
    last = Folded(last, by_lane, parts[i]);
  }

  // These 16 bytes stand for all before them: their checksum from an empty register goes on.
  alignas(16) std::byte folded[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(folded), last);
  const uint32_t crc = libdeflate_crc32(~uint32_t{0}, folded, sizeof folded);
  return libdeflate_crc32(crc, at, static_cast<size_t>(end - at));
}

#else

bool HasWideCrc() { return false; }
uint32_t WideCrc32(std::span<const std::byte> data, uint32_t seed) {
  return libdeflate_crc32(seed, data.data(), data.size());
}

#endif

}  // namespace msprobe::kernels::internal
