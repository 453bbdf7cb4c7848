// Tensor files for callers that keep the file in hand: what WritePtFile and WriteNpyFile write,
// into a file that is renamed into place later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/files.h"

namespace msprobe::io {

// `data_crc32`: the CRC-32 of the row-major bytes, where the caller knows it.
Status WritePtTo(base::AtomicFile& file, const TensorView& tensor,
                 std::optional<uint32_t> data_crc32);
Status WriteNpyTo(base::AtomicFile& file, const TensorView& tensor);

// The three one after the other: small files in a single write, room for large ones reserved.
Status WriteParts(base::AtomicFile& file, std::string_view head, std::span<const std::byte> data,
                  std::string_view tail);

}  // namespace msprobe::io
