// One gradient in one pass over its bytes: statistics, a checksum, how its values are distributed,
// and their signs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/grad_probe/settings.h"

namespace msprobe::grad_probe {

struct Numbers {
  uint64_t element_count = 0;
  // NaN where an element is NaN, and of no elements. Rounded to the dtype of a half, else to
  // float32.
  double max = 0;
  double min = 0;
  double norm = 0;  // sqrt(sum of squares)
  uint64_t zero_count = 0;
  uint32_t crc32 = 0;  // level L0: of the elements as little-endian float32
  // Level L2: elements x of (b[i-1], b[i]], from (-inf, b[0]] to (b[last], inf); NaN and +inf count
  // to the last. One more than there are bounds.
  std::vector<uint64_t> intervals;
};

// `signs`: levels L1 and L2, a byte per element, 1 where it is above 0; null otherwise. Only
// floating dtypes (kUnsupported else).
Result<Numbers> Measure(const TensorView& gradient, Level level, std::span<const Bound> bounds,
                        std::byte* signs);

}  // namespace msprobe::grad_probe
