#include "src/kernels/crc32.h"

#include <libdeflate.h>

namespace msprobe::kernels {

uint32_t Crc32(std::span<const std::byte> data, uint32_t seed) {
  if (data.size() >= internal::kWideCrcFromBytes && internal::HasWideCrc()) {
    return internal::WideCrc32(data, seed);
  }
  // libdeflate takes a null pointer for a request for the initial value.
  return data.empty() ? seed : libdeflate_crc32(seed, data.data(), data.size());
}

uint32_t Crc32(std::string_view text) { return Crc32(std::as_bytes(std::span(text)), 0); }

}  // namespace msprobe::kernels
