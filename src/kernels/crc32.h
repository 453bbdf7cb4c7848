// CRC-32 as zlib computes it (polynomial 0xEDB88320), at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace msprobe::kernels {

uint32_t Crc32(std::span<const std::byte> data, uint32_t seed = 0);
uint32_t Crc32(std::string_view text);

}  // namespace msprobe::kernels
