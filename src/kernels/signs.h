// Directions of gradients, one flag per element: true where it is above 0. As bytes, as NumPy
// stores bool, or as bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace msprobe::kernels {

// How many flags of two runs of equal length differ. A byte is true unless it is 0.
uint64_t CountDifferentFlags(std::span<const std::byte> a, std::span<const std::byte> b);

// Flags as bits, eight to a byte, the first in the highest bit, as numpy.packbits has them; what is
// left of the last byte is 0. `out` has (flags.size() + 7) / 8 bytes.
void PackFlags(std::span<const std::byte> flags, std::span<std::byte> out);

// How many of the first `count` bits differ.
uint64_t CountDifferentBits(std::span<const std::byte> a, std::span<const std::byte> b,
                            size_t count);

// A flag per element: 1 where it is above 0, else (0, below, NaN) 0. `out` has as many bytes as
// there are values.
void PutPositive(std::span<const float> values, std::span<std::byte> out);
void PutPositive(std::span<const double> values, std::span<std::byte> out);

// How many elements are at most `bound`; NaN is not.
uint64_t CountAtMost(std::span<const float> values, float bound);
uint64_t CountAtMost(std::span<const double> values, double bound);

}  // namespace msprobe::kernels
