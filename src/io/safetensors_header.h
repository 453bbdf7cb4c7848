// The text at the beginning of a .safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::io {

inline constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;
inline constexpr size_t kSafetensorsLengthBytes = 8;  // before the header
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";
// The header's own nesting is three levels.
inline constexpr int kMaxSafetensorsDepth = 8;

// The JSON text, which borrows from the bytes of the file; the data follow it. Errors are
// kBadFormat.
Result<std::string_view> SafetensorsHeader(std::span<const std::byte> file);

}  // namespace msprobe::io
