// CRC-32C (Castagnoli), the checksum of TensorBoard's event files: the processor's instruction
// where it has one, a table otherwise.
#pragma once

#include <cstdint>
#include <string_view>

namespace msprobe::kernels {

uint32_t Crc32c(std::string_view bytes);

// By table, always: what Crc32c is held against.
uint32_t PlainCrc32c(std::string_view bytes);

}  // namespace msprobe::kernels
