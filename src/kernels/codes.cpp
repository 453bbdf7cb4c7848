#include "src/kernels/codes.h"

#include <algorithm>

#include "src/kernels/kernel_table.h"

namespace msprobe::kernels {

void DecodeNibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
                   const NibbleScale* scales, size_t group, float* values, float* bounds) {
  const internal::KernelTable& table = internal::ActiveTable();
  for (size_t first = 0; first < count; first += group) {
    const NibbleScale& scale = *scales++;
    const size_t end = std::min(count, first + group);
    const size_t grouped =
        first + (end - first) / internal::kGroupElements * internal::kGroupElements;
    const auto decode = [&](const internal::KernelTable& with, size_t from, size_t to) {
      if (from < to) {
        with.nibbles(bytes + from / 2, to - from, order, rule, scale, values + from,
                     bounds == nullptr ? nullptr : bounds + from);
      }
    };
    decode(table, first, grouped);
    decode(internal::PlainTable(), grouped, end);
  }
}

void DecodeBytes(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule,
                 const float* scales, size_t group, float* values, float* bounds) {
  const internal::KernelTable& table = internal::ActiveTable();
  for (size_t first = 0; first < count; first += group) {
    const float scale = *scales++;
    const size_t end = std::min(count, first + group);
    const size_t grouped =
        first + (end - first) / internal::kGroupElements * internal::kGroupElements;
    const auto decode = [&](const internal::KernelTable& with, size_t from, size_t to) {
      return with.bytes(code, codes + from, to - from, rule, scale, values + from,
                        bounds == nullptr ? nullptr : bounds + from);
    };
    // NaN and infinities are left to the scalar loop.
    if (!decode(table, first, grouped)) {
      decode(internal::PlainTable(), first, grouped);
    }
    decode(internal::PlainTable(), grouped, end);
  }
}

}  // namespace msprobe::kernels
