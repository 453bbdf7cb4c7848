#include "src/kernels/signs.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace msprobe::kernels {
namespace {

constexpr size_t kWordBytes = 8;
constexpr uint64_t kLowBits = 0x7F7F7F7F7F7F7F7FU;
constexpr uint64_t kHighBits = ~kLowBits;

// The highest bit of every byte that is not 0; no byte carries into the next.
uint64_t TrueBytes(uint64_t word) { return (((word & kLowBits) + kLowBits) | word) & kHighBits; }

uint64_t LoadWord(const std::byte* data, size_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, data, bytes);
  return word;
}

template <typename Value>
void PutFlags(std::span<const Value> values, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = static_cast<std::byte>(values[i] > 0 ? 1 : 0);
  }
}

// In runs that a narrow counter can hold, so that many are counted at a time.
template <typename Value>
uint64_t CountOfRuns(std::span<const Value> values, Value bound) {
  constexpr size_t kRun = size_t{1} << 14U;
  uint64_t total = 0;
  for (size_t first = 0; first < values.size(); first += kRun) {
    const size_t end = std::min(values.size(), first + kRun);
    uint32_t count = 0;
    for (size_t i = first; i < end; ++i) {
      count += values[i] <= bound ? 1U : 0U;
    }
    total += count;
  }
  return total;
}

}  // namespace

void PackFlags(std::span<const std::byte> flags, std::span<std::byte> out) {
  // Each byte's highest bit is moved to a place of its own in the highest byte of the product.
  constexpr uint64_t kGather = 0x0002040810204081U;
  size_t at = 0;
  for (size_t i = 0; at < flags.size(); ++i, at += kWordBytes) {
    const size_t bytes = std::min(kWordBytes, flags.size() - at);
    uint64_t word = TrueBytes(LoadWord(flags.data() + at, bytes));
    word = __builtin_bswap64(word);
    out[i] = static_cast<std::byte>((word * kGather) >> 56U);
  }
}

uint64_t CountDifferentBits(std::span<const std::byte> a, std::span<const std::byte> b,
                            size_t count) {
  uint64_t different = 0;
  const size_t whole = count / 8;
  size_t at = 0;
  for (; at < whole; at += kWordBytes) {
    const size_t bytes = std::min(kWordBytes, whole - at);
    different += static_cast<uint64_t>(
        std::popcount(LoadWord(a.data() + at, bytes) ^ LoadWord(b.data() + at, bytes)));
  }
  if (count % 8 != 0) {
    const auto apart = std::to_integer<uint32_t>(a[whole] ^ b[whole]) >> (8 - count % 8);
    different += static_cast<uint64_t>(std::popcount(apart));
  }
  return different;
}

void PutPositive(std::span<const float> values, std::span<std::byte> out) { PutFlags(values, out); }
void PutPositive(std::span<const double> values, std::span<std::byte> out) {
  PutFlags(values, out);
}

uint64_t CountAtMost(std::span<const float> values, float bound) {
  return CountOfRuns(values, bound);
}
uint64_t CountAtMost(std::span<const double> values, double bound) {
  return CountOfRuns(values, bound);
}

uint64_t CountDifferentFlags(std::span<const std::byte> a, std::span<const std::byte> b) {
  uint64_t different = 0;
  const auto count = [&](size_t at, size_t bytes) {
    different += static_cast<uint64_t>(std::popcount(TrueBytes(LoadWord(a.data() + at, bytes)) ^
                                                     TrueBytes(LoadWord(b.data() + at, bytes))));
  };
  size_t at = 0;
  for (; at + kWordBytes <= a.size(); at += kWordBytes) {
    count(at, kWordBytes);
  }
  if (at < a.size()) {
    count(at, a.size() - at);
  }
  return different;
}

}  // namespace msprobe::kernels
