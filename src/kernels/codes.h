// Codes of quantised weights to numbers, each with the bound that rounding to it has, in runs that
// share a scale. Bounds may be null.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace msprobe::kernels {

// What the sixteen codes of four bits stand for: value = (number - zero) * scale, and
// bound = reach * (steps + min((|number - zero| + added) * relative, most_steps)) +
//         |number - zero| * error.
struct NibbleRule {
  alignas(64) float numbers[16];
  alignas(64) float steps[16];
  float added = 0;
  float relative = 0;
  float most_steps = 0;
};
// What differs from group to group.
struct NibbleScale {
  float zero;
  float scale;
  float reach;  // |scale|, and how far the scale itself may be off
  float error;  // of the scale
};

// Two codes in each byte, from the first nibble of `bytes` on; of an odd count the last byte is
// used in part. Each `group` elements take the next of `scales`; it is even unless one scale is
// enough.
enum class NibbleOrder : uint8_t { kLowFirst, kHighFirst };
void DecodeNibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
                   const NibbleScale* scales, size_t group, float* values, float* bounds);

// Codes of a byte whose numbers and gaps follow from their bits.
enum class ByteCode : uint8_t { kFloat8E4M3, kFloat8E5M2, kInt8 };
struct ByteRule {
  float inner_steps = 0.5F;  // gaps that a number may be off by,
  float end_steps = 1;       // and where the code is at an end of the range
  float relative = 0;        // of the number in addition, at most
  float most_steps = 0.25F;  // so many gaps
};
// value = number * scale, bound = (gap * steps + min(|number| * relative, gap * most_steps)) *
// |scale|. `relative` is at most 2^-7, so that of 8-bit floats the first one is the smaller. NaN
// and infinities have a bound of 0. Each `group` elements take the next of `scales`.
void DecodeBytes(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule,
                 const float* scales, size_t group, float* values, float* bounds);

// One of the above as a description, for those who decode a few elements at a time
// (CompareBounded).
struct CodedRun {
  static constexpr size_t kMostGroups = 64;
  const std::byte* bytes = nullptr;
  size_t group = 0;
  bool is_nibbles = false;
  NibbleOrder order = NibbleOrder::kLowFirst;
  const NibbleRule* nibble_rule = nullptr;
  ByteCode code = ByteCode::kInt8;
  ByteRule byte_rule;
  std::array<NibbleScale, kMostGroups> nibble_scales;
  std::array<float, kMostGroups> byte_scales;
};
// `count` elements from element `first` on, which is even.
void DecodeRun(const CodedRun& run, size_t first, size_t count, float* values, float* bounds);

}  // namespace msprobe::kernels
