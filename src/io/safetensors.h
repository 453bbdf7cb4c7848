// Where the tensors of one .safetensors file lie in larger ones: torch.distributed.checkpoint
// writes a file per rank, and says so in a text of the file's metadata.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

inline constexpr std::string_view kShardingInfoKey = "DCP_SHARDING_INFO";

// The place of each tensor's first element in the whole, by name: one number per axis of the whole,
// none negative. `file` is the bytes of a .safetensors file; empty without such a text. Errors are
// kBadFormat.
Result<std::unordered_map<std::string, Shape>> ReadShardOffsets(std::span<const std::byte> file);

}  // namespace msprobe::io
