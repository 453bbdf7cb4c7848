// CRC-32 with carry-less multiplications of 512 bits, where the processor has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace msprobe::kernels::internal {

// Shorter spans gain nothing.
inline constexpr size_t kWideCrcFromBytes = 512;

bool HasWideCrc();
// `data` has at least kWideCrcFromBytes bytes; HasWideCrc() is true.
uint32_t WideCrc32(std::span<const std::byte> data, uint32_t seed);

}  // namespace msprobe::kernels::internal
