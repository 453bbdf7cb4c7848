// Cyclic checksums at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace msprobe::kernels {

// CRC-32 as zlib computes it (polynomial 0xEDB88320).
uint32_t Crc32(std::span<const std::byte> data, uint32_t seed = 0);
uint32_t Crc32(std::string_view text);

// CRC-32C (Castagnoli), the checksum of TensorBoard's event files: the processor's instruction
// where it has one, a table otherwise.
uint32_t Crc32c(std::string_view bytes);
// By table, always: what Crc32c is held against.
uint32_t PlainCrc32c(std::string_view bytes);

namespace internal {

// CRC-32 with carry-less multiplications of 512 bits, where the processor has them. Shorter spans
// gain nothing.
inline constexpr size_t kWideCrcFromBytes = 512;
bool HasWideCrc();
// `data` has at least kWideCrcFromBytes bytes; HasWideCrc() is true.
uint32_t WideCrc32(std::span<const std::byte> data, uint32_t seed);

}  // namespace internal
}  // namespace msprobe::kernels
