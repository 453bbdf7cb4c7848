// A hash of integers that a file chose. std::hash gives an integer back as it is: keys that are
// multiples of the number of buckets would all lie in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace msprobe::io {

struct SpreadHash {
  size_t operator()(uint64_t value) const {
    // Drawn anew in every process: no file can be made for it.
    static const uint64_t seed = (uint64_t{std::random_device()()} << 32U) | std::random_device()();
    // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
    value += seed;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<size_t>(value ^ (value >> 31U));
  }
};

}  // namespace msprobe::io
