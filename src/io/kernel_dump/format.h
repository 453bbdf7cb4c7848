// The memory layouts that Ascend's kernels name ("NC1HWC0"), by the numbers of a kernel dump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

namespace msprobe::io::kernel_dump {

// The element types of Ascend's kernel dumps, which number them in their own way, and how the bytes
// of each become elements that msprobe knows.

// How the file encodes one element, or several.
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
  kHiFloat8,     // one byte; the bits after the sign give the width of the exponent
  kFloat8E8M0,   // one byte, 2^(byte - 127); 255 is NaN
  kHalfComplex,  // two float16
  kOpaque,       // unknown: bytes
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

// The formats that are converted; all others are known by name only.
namespace format {
inline constexpr uint32_t kNCHW = 0;
inline constexpr uint32_t kNHWC = 1;
inline constexpr uint32_t kND = 2;
inline constexpr uint32_t kNC1HWC0 = 3;
inline constexpr uint32_t kFractalZ = 4;
inline constexpr uint32_t kC1HWNC0 = 9;
inline constexpr uint32_t kNC1HWC0C04 = 12;
inline constexpr uint32_t kFractalZC04 = 13;
inline constexpr uint32_t kCHWN = 14;
inline constexpr uint32_t kHWCN = 16;
inline constexpr uint32_t kC1HWNCoC0 = 25;
inline constexpr uint32_t kNDHWC = 27;
inline constexpr uint32_t kFractalNZ = 29;
inline constexpr uint32_t kNCDHW = 30;
inline constexpr uint32_t kDHWCN = 31;
inline constexpr uint32_t kNDC1HWC0 = 32;
inline constexpr uint32_t kFractalZ3D = 33;
inline constexpr uint32_t kDHWNC = 36;
}  // namespace format

// "NC1HWC0"; "format 77" for a number that is not in use.
std::string FormatName(uint32_t number);
// Also the variants with the width of a block in their names, FRACTAL_NZ_C0_16. Case does not
// matter.
std::optional<uint32_t> FindFormat(std::string_view name);

// The names of kernel dump files: what ran, in which task of which stream, and when.

// {op_type}.{op_name}.{task_id}[.{stream_id}].{timestamp}[.{task_type}.{context_id}.{thread_id}
// .{device_id}]
struct DumpFileName {
  std::string op_type;
  std::string op_name;
  uint64_t task_id = 0;
  std::optional<uint64_t> stream_id;
  uint64_t timestamp = 0;  // microseconds since 1970
  std::optional<uint64_t> task_type;
  std::optional<uint64_t> context_id;
  std::optional<uint64_t> thread_id;
  std::optional<uint64_t> device_id;

  bool is_overflow() const;  // of an operator that overflowed, "Opdebug.Node_OpDebug..."
};

// Nothing for other names. Numbers that do not fit are not numbers.
std::optional<DumpFileName> ParseDumpFileName(std::string_view name);

// The name of an operator as names of files have it: '_' for '/', '.', '\' and blanks.
std::string InFileNames(std::string_view op_name);

// Names that are too long for the file system are replaced by digits, and a line
// "<digits>,<name>" of mapping.csv in the same folder tells the real one.
bool IsReplacedName(std::string_view name);
inline constexpr std::string_view kNameMappingFile = "mapping.csv";

}  // namespace msprobe::io::kernel_dump
