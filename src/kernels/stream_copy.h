// Copies that bypass the cache, for bytes that are not read soon.
#pragma once

#include <cstddef>

namespace msprobe::kernels {

// As memcpy, past the caches where the machine can: lines that are written whole are not read
// before. Worth it for results beyond the caches only. Call FinishStreams() behind the last copy.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

// Orders streamed stores before anything that this thread writes afterwards.
void FinishStreams();

}  // namespace msprobe::kernels
