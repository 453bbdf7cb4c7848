#include "src/kernels/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace msprobe::kernels {

#ifdef __SSE2__

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kVector = sizeof(__m128i);
  const size_t misaligned = reinterpret_cast<uintptr_t>(to) % kVector;
  const size_t head = std::min(bytes, (kVector - misaligned) % kVector);
  std::memcpy(to, from, head);
  size_t done = head;
  for (; done + kVector <= bytes; done += kVector) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done)));
  }
  std::memcpy(to + done, from + done, bytes - done);
}

void FinishStreams() { _mm_sfence(); }

#else

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void FinishStreams() {}

#endif

}  // namespace msprobe::kernels
