#include <array>
#include <cstring>

#include "src/kernels/crc32.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace msprobe::kernels {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
    }
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
bool HasInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) uint32_t ByInstruction(std::string_view bytes) {
  uint64_t crc = 0xFFFFFFFFU;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (; at < bytes.size(); ++at) {
    rest = _mm_crc32_u8(rest, static_cast<unsigned char>(bytes[at]));
  }
  return ~rest;
}
#elif defined(__aarch64__)
constexpr unsigned long kHardwareCrc32 = 1UL << 7U;  // HWCAP_CRC32
bool HasInstruction() { return (getauxval(AT_HWCAP) & kHardwareCrc32) != 0; }

__attribute__((target("+crc"))) uint32_t ByInstruction(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    crc = __crc32cd(crc, word);
  }
  for (; at < bytes.size(); ++at) {
    crc = __crc32cb(crc, static_cast<unsigned char>(bytes[at]));
  }
  return ~crc;
}
#else
bool HasInstruction() { return false; }
uint32_t ByInstruction(std::string_view bytes) { return PlainCrc32c(bytes); }
#endif

}  // namespace

uint32_t PlainCrc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ (crc >> 8U);
  }
  return ~crc;
}

uint32_t Crc32c(std::string_view bytes) {
  static const bool kHasInstruction = HasInstruction();
  return kHasInstruction ? ByInstruction(bytes) : PlainCrc32c(bytes);
}

}  // namespace msprobe::kernels
