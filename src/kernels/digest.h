// Keyed sums over the elements of a tensor that do not depend on how it is cut: what a digest of
// weights adds up (docs/design/digest.md). An element adds G(i / 1024) * C(i % 1024) * word modulo
// 2^64, i being its place in the flattened whole tensor: sums of parts add up to that of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "msprobe/dtype.h"

namespace msprobe::kernels {

// Rounding to nearest even before values are digested. Exact casts to wider types need none.
enum class DigestCast : uint8_t { kNone, kFloat32, kBFloat16, kFloat16 };

// For two independent keys.
struct DigestSums {
  uint64_t a = 0;
  uint64_t b = 0;

  DigestSums& operator+=(const DigestSums& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
  bool operator==(const DigestSums&) const = default;
};

// Adds the elements at places first, first + 1, ... of the flattened whole. `data` holds
// little-endian elements at any alignment. Floating values count as the bits of a float32 where
// they fit it exactly, whatever type stores them; every NaN is the same one, zeros have their
// signs. Integers and bool count as 64-bit numbers and know no cast, nor do complex ones.
void AddToDigest(DType dtype, DigestCast cast, std::span<const std::byte> data, uint64_t first,
                 DigestSums& sums);

// Elements that share the factor G.
inline constexpr size_t kDigestChunk = 1024;

namespace internal {
// C for the words of an element (four: real and imaginary numbers of 64 bits), all odd and
// different.
struct DigestKeys {
  uint32_t a[4][kDigestChunk];
  uint32_t b[4][kDigestChunk];
  // The keys of first words in digits of 11 bits, lowest first, and the sums of all keys before
  // each: for loops over elements of 16 bits.
  int16_t digits_a[3][kDigestChunk];
  int16_t digits_b[3][kDigestChunk];
  uint64_t before_a[kDigestChunk + 1];
  uint64_t before_b[kDigestChunk + 1];
};
const DigestKeys& KeysOfDigest();
}  // namespace internal

}  // namespace msprobe::kernels
