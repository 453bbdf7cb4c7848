#include "src/kernels/crc32.h"

#include <libdeflate.h>

#include "src/kernels/crc32_wide.h"

namespace msprobe::kernels {
namespace {

constexpr uint32_t kPolynomial =
    0xEDB88320U;  // bit-reflected: the coefficient of x^0 is the highest bit

// The product of two polynomials over GF(2), modulo the CRC's.
uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000U; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) {
      product ^= b;
    }
    b = (b & 1U) != 0 ? (b >> 1U) ^ kPolynomial : b >> 1U;
  }
  return product;
}

}  // namespace

uint32_t Crc32(std::span<const std::byte> data, uint32_t seed) {
  if (data.size() >= internal::kWideCrcFromBytes && internal::HasWideCrc()) {
    return internal::WideCrc32(data, seed);
  }
  // libdeflate takes a null pointer for a request for the initial value.
  return data.empty() ? seed : libdeflate_crc32(seed, data.data(), data.size());
}

uint32_t Crc32(std::string_view text) { return Crc32(std::as_bytes(std::span(text)), 0); }

// Appending length_b bytes multiplies the first checksum by x^(8 * length_b); the power comes from
// repeated squaring.
uint32_t Crc32Combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b_bytes) {
  uint32_t power = 0x80000000U >> 8U;  // x^8
  uint32_t shifted = crc_a;
  for (uint64_t rest = length_b_bytes; rest != 0; rest >>= 1U) {
    if ((rest & 1U) != 0) {
      shifted = MultiplyModulo(shifted, power);
    }
    power = MultiplyModulo(power, power);
  }
  return shifted ^ crc_b;
}

}  // namespace msprobe::kernels
