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

void DecodeRun(const CodedRun& run, size_t first, size_t count, float* values, float* bounds) {
  for (size_t done = 0; done < count;) {
    const size_t at = first + done;
    // What begins inside of a group is decoded to its end first.
    const size_t size =
        at % run.group == 0 ? count - done : std::min(count - done, run.group - at % run.group);
    float* const bounds_at = bounds == nullptr ? nullptr : bounds + done;
    if (run.is_nibbles) {
      DecodeNibbles(run.bytes + at / 2, size, run.order, *run.nibble_rule,
                    run.nibble_scales.data() + at / run.group, run.group, values + done, bounds_at);
    } else {
      DecodeBytes(run.code, run.bytes + at, size, run.byte_rule,
                  run.byte_scales.data() + at / run.group, run.group, values + done, bounds_at);
    }
    done += size;
  }
}

}  // namespace msprobe::kernels
