#include "src/kernels/codes.h"

#include "src/kernels/kernel_table.h"

namespace msprobe::kernels {

void DecodeNibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
                   float* values, float* bounds) {
  const size_t grouped = count / internal::kGroupElements * internal::kGroupElements;
  if (grouped > 0) {
    internal::ActiveTable().nibbles(bytes, grouped, order, rule, values, bounds);
  }
  if (grouped < count) {
    internal::PlainTable().nibbles(bytes + grouped / 2, count - grouped, order, rule,
                                   values + grouped,
                                   bounds == nullptr ? nullptr : bounds + grouped);
  }
}

void DecodeBytes(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule,
                 float* values, float* bounds) {
  const size_t grouped = count / internal::kGroupElements * internal::kGroupElements;
  internal::ActiveTable().bytes(code, codes, grouped, rule, values, bounds);
  if (grouped < count) {
    internal::PlainTable().bytes(code, codes + grouped, count - grouped, rule, values + grouped,
                                 bounds == nullptr ? nullptr : bounds + grouped);
  }
}

}  // namespace msprobe::kernels
