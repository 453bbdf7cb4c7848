// A tensor of any layout as a sequence of row-major little-endian blocks, for writers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {

// Elements copied at a time: small enough to stay in the cache, large enough to hide the cost of a
// call.
inline constexpr int64_t kBlockElements = 16384;

// Calls write(span) -> Status for consecutive pieces; plain tensors arrive in one piece and
// uncopied.
template <typename Write>
Status ForEachBlock(const TensorView& view, Write write) {
  if (view.is_plain()) {
    return view.element_count() > 0 ? write(view.bytes()) : Status();
  }
  const int64_t count = view.element_count();
  const size_t element_bytes = DTypeSize(view.dtype);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(count, kBlockElements)) *
                                element_bytes);
  for (int64_t first = 0; first < count; first += kBlockElements) {
    const int64_t block = std::min(count - first, kBlockElements);
    tensor::CopyElements(view, first, block, buffer.data());
    MSP_RETURN_IF_ERROR(write(
        std::span<const std::byte>(buffer.data(), static_cast<size_t>(block) * element_bytes)));
  }
  return {};
}

}  // namespace msprobe::io
