// The element types of Ascend's kernel dumps, which number them in their own way, and how the bytes
// of each become elements that msprobe knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

namespace msprobe::io::kernel_dump {

// What stands in the file for one element, or for several.
enum class Packing : uint8_t {
  kPlain,    // `becomes`, as it is
  kBits,     // one bit an element, the most significant one first
  kTwoBits,  // four elements a byte, the lowest bits first; with and without a sign
  kTwoBitsSigned,
  kFourBitsSigned,  // two elements a byte, the low nibble first
  kFloat4E2M1,      // the same of 4-bit floats
  kFloat4E1M2,
  kFloat6E3M2,  // 6-bit floats, four in three bytes, the lowest bits first
  kFloat6E2M3,
  kHiFloat8,     // one byte; width of the exponent told by the bits behind the sign
  kFloat8E8M0,   // one byte, 2^(byte - 127); 255 is NaN
  kHalfComplex,  // two float16
  kOpaque,       // nobody knows; bytes
};

struct DataType {
  uint32_t number;        // in the header of a dump
  std::string_view name;  // "FLOAT16"
  Packing packing;
  DType becomes;  // of an element when it is read
};

// Null for numbers that are not in use.
const DataType* FindDataType(uint32_t number);
// "FLOAT16", "type 99"
std::string_view DataTypeName(uint32_t number);
// The number here of an aclDataType, as nano dumps have it; nothing for types that have none.
std::optional<uint32_t> FromAclDataType(int32_t acl);

// Bytes that `elements` elements take in the file. False when the number does not fit.
[[nodiscard]] bool PackedBytes(const DataType& type, uint64_t elements, uint64_t* bytes);
// Elements in `bytes` bytes.
uint64_t ElementsIn(const DataType& type, uint64_t bytes);

// The first `elements` elements as `type.becomes`; `packed` holds PackedBytes of them. Not for
// kPlain and kOpaque, which need no change. The values are exact.
std::vector<std::byte> Unpack(const DataType& type, std::span<const std::byte> packed,
                              uint64_t elements);

// One HiFloat8 (HiFloat8 of Huawei, "Ascend HiFloat8 Format for Deep Learning", arXiv 2409.16626):
// a sign, a dot field of 2 to 4 bits that tells the width of the exponent, exponent and mantissa.
double HiFloat8ToDouble(uint8_t bits);

}  // namespace msprobe::io::kernel_dump
