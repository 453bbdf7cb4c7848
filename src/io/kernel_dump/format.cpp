#include "src/io/kernel_dump/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/tensor/float_bits.h"

namespace msprobe::io::kernel_dump {
namespace {

using enum DType;
using enum Packing;

constexpr std::array<DataType, 43> kTypes = {{
    {0, "UNDEFINED", kPlain, kInt8},
    {1, "FLOAT", kPlain, kFloat32},
    {2, "FLOAT16", kPlain, kFloat16},
    {3, "INT8", kPlain, kInt8},
    {4, "UINT8", kPlain, kUInt8},
    {5, "INT16", kPlain, kInt16},
    {6, "UINT16", kPlain, kUInt16},
    {7, "INT32", kPlain, kInt32},
    {8, "INT64", kPlain, kInt64},
    {9, "UINT32", kPlain, kUInt32},
    {10, "UINT64", kPlain, kUInt64},
    {11, "BOOL", kPlain, kBool},
    {12, "DOUBLE", kPlain, kFloat64},
    {13, "STRING", kOpaque, kUInt8},
    {14, "DUAL_SUB_INT8", kOpaque, kUInt8},
    {15, "DUAL_SUB_UINT8", kOpaque, kUInt8},
    {16, "COMPLEX64", kPlain, kComplex64},
    {17, "COMPLEX128", kPlain, kComplex128},
    {18, "QINT8", kPlain, kInt8},
    {19, "QINT16", kPlain, kInt16},
    {20, "QINT32", kPlain, kInt32},
    {21, "QUINT8", kPlain, kUInt8},
    {22, "QUINT16", kPlain, kUInt16},
    {23, "RESOURCE", kPlain, kInt64},
    {24, "STRING_REF", kOpaque, kUInt8},
    {25, "DUAL", kOpaque, kUInt8},
    {26, "VARIANT", kOpaque, kUInt8},
    {27, "BF16", kPlain, kBFloat16},
    {28, "INT4", kFourBitsSigned, kInt8},
    {29, "UINT1", kBits, kUInt8},
    {30, "INT2", kTwoBitsSigned, kInt8},
    {31, "UINT2", kTwoBits, kUInt8},
    {32, "COMPLEX32", kHalfComplex, kComplex64},
    {33, "HIFLOAT8", kHiFloat8, kFloat64},
    {34, "FLOAT8_E5M2", kPlain, kFloat8E5M2},
    {35, "FLOAT8_E4M3FN", kPlain, kFloat8E4M3FN},
    {36, "FLOAT8_E8M0", kFloat8E8M0, kFloat64},
    {37, "FLOAT6_E3M2", kFloat6E3M2, kFloat64},
    {38, "FLOAT6_E2M3", kFloat6E2M3, kFloat64},
    {39, "FLOAT4_E2M1", kFloat4E2M1, kFloat64},
    {40, "FLOAT4_E1M2", kFloat4E1M2, kFloat64},
    {41, "HIFLOAT4", kOpaque, kUInt8},
    {42, "HIFLOAT4_SCALE", kOpaque, kUInt8},
}};

struct AclNumber {
  int32_t acl;
  uint32_t number;
};
constexpr std::array<AclNumber, 20> kAclNumbers = {
    {{0, 1},   {1, 2},   {2, 3},   {3, 7},   {4, 4},   {6, 5},   {7, 6},
     {8, 9},   {9, 8},   {10, 10}, {11, 12}, {12, 11}, {16, 16}, {17, 17},
     {23, 23}, {27, 27}, {29, 28}, {30, 29}, {35, 34}, {36, 35}}};

// How many elements share how many bytes.
struct Group {
  uint64_t elements;
  uint64_t bytes;
};
Group GroupOf(const DataType& type) {
  switch (type.packing) {
    case kPlain:
      return {1, DTypeSize(type.becomes)};
    case kBits:
      return {8, 1};
    case kTwoBits:
    case kTwoBitsSigned:
      return {4, 1};
    case kFourBitsSigned:
    case kFloat4E2M1:
    case kFloat4E1M2:
      return {2, 1};
    case kFloat6E3M2:
    case kFloat6E2M3:
      return {4, 3};
    case kHalfComplex:
      return {1, 4};
    case kHiFloat8:
    case kFloat8E8M0:
    case kOpaque:
      break;
  }
  return {1, 1};
}

// A float without infinities and NaN (OCP Microscaling Formats 1.0, FP4 and FP6): sign, exponent,
// mantissa; exponent 0 is subnormal.
double SmallFloat(unsigned bits, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = bits & ((1U << static_cast<unsigned>(mantissa_bits)) - 1);
  const unsigned exponent = (bits >> static_cast<unsigned>(mantissa_bits)) &
                            ((1U << static_cast<unsigned>(exponent_bits)) - 1);
  const bool negative = (bits >> static_cast<unsigned>(exponent_bits + mantissa_bits)) != 0;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

// `width` bits of element `index`, elements one after the other from the lowest bit on.
unsigned BitsAt(std::span<const std::byte> packed, uint64_t index, unsigned width) {
  const uint64_t first = index * width;
  const size_t at = static_cast<size_t>(first / 8);
  unsigned bits = std::to_integer<unsigned>(packed[at]);
  if (at + 1 < packed.size()) {
    bits |= std::to_integer<unsigned>(packed[at + 1]) << 8U;
  }
  return (bits >> static_cast<unsigned>(first % 8)) & ((1U << width) - 1);
}

std::byte Signed(unsigned bits, unsigned width) {
  const unsigned sign = 1U << (width - 1);
  return static_cast<std::byte>(static_cast<uint8_t>((bits ^ sign) - sign));
}

template <typename Value, typename Read>
std::vector<std::byte> Each(uint64_t elements, Read read) {
  std::vector<std::byte> out(static_cast<size_t>(elements) * sizeof(Value));
  for (uint64_t i = 0; i < elements; ++i) {
    const Value value = read(i);
    std::memcpy(out.data() + i * sizeof(Value), &value, sizeof value);
  }
  return out;
}

}  // namespace

const DataType* FindDataType(uint32_t number) {
  return number < kTypes.size() ? &kTypes[number] : nullptr;
}

std::string_view DataTypeName(uint32_t number) {
  const DataType* type = FindDataType(number);
  return type != nullptr ? type->name : "unknown";
}

std::optional<uint32_t> FromAclDataType(int32_t acl) {
  for (const AclNumber& known : kAclNumbers) {
    if (known.acl == acl) {
      return known.number;
    }
  }
  return std::nullopt;
}

bool PackedBytes(const DataType& type, uint64_t elements, uint64_t* bytes) {
  const Group group = GroupOf(type);
  const uint64_t groups = elements / group.elements + (elements % group.elements != 0 ? 1 : 0);
  return CheckedMultiply(groups, group.bytes, bytes);
}

uint64_t ElementsIn(const DataType& type, uint64_t bytes) {
  const Group group = GroupOf(type);
  return bytes / group.bytes * group.elements;
}

double HiFloat8ToDouble(uint8_t bits) {
  const double sign = (bits & 0x80U) != 0 ? -1 : 1;
  const unsigned low = bits & 0x7FU;
  if (low == 0) {
    return (bits & 0x80U) != 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  if (low == 0x6F) {
    return sign * std::numeric_limits<double>::infinity();
  }
  // Bits of the exponent, and where the mantissa ends: the dot field is 2 bits wide for 4, 3 and 2
  // bits of exponent, 3 bits for 1, 4 bits for none.
  int exponent_bits = 0;
  int mantissa_bits = 3;
  if (const unsigned dot = low >> 5U; dot != 0) {
    exponent_bits = static_cast<int>(dot) + 1;
    mantissa_bits = 5 - exponent_bits;
  } else if ((low >> 4U) == 1) {
    exponent_bits = 1;
  } else if ((low >> 3U) == 0) {
    return sign * std::ldexp(1, static_cast<int>(low) - 23);  // denormal
  }
  int exponent = 0;
  if (exponent_bits > 0) {
    const unsigned field = (low >> static_cast<unsigned>(mantissa_bits)) &
                           ((1U << static_cast<unsigned>(exponent_bits)) - 1);
    const unsigned top = 1U << static_cast<unsigned>(exponent_bits - 1);
    const auto magnitude = static_cast<int>(top | (field & (top - 1)));
    exponent = (field & top) != 0 ? -magnitude : magnitude;
  }
  const unsigned mantissa = low & ((1U << static_cast<unsigned>(mantissa_bits)) - 1);
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent);
}

std::vector<std::byte> Unpack(const DataType& type, std::span<const std::byte> packed,
                              uint64_t elements) {
  const auto byte_at = [&](uint64_t i) { return std::to_integer<uint8_t>(packed[i]); };
  switch (type.packing) {
    case kBits:
      return Each<std::byte>(elements, [&](uint64_t i) {
        return static_cast<std::byte>((byte_at(i / 8) >> (7 - i % 8)) & 1U);
      });
    case kTwoBits:
      return Each<std::byte>(
          elements, [&](uint64_t i) { return static_cast<std::byte>(BitsAt(packed, i, 2)); });
    case kTwoBitsSigned:
      return Each<std::byte>(elements, [&](uint64_t i) { return Signed(BitsAt(packed, i, 2), 2); });
    case kFourBitsSigned:
      return Each<std::byte>(elements, [&](uint64_t i) { return Signed(BitsAt(packed, i, 4), 4); });
    case kFloat4E2M1:
      return Each<double>(elements,
                          [&](uint64_t i) { return SmallFloat(BitsAt(packed, i, 4), 2, 1, 1); });
    case kFloat4E1M2:
      return Each<double>(elements,
                          [&](uint64_t i) { return SmallFloat(BitsAt(packed, i, 4), 1, 2, 1); });
    case kFloat6E3M2:
      return Each<double>(elements,
                          [&](uint64_t i) { return SmallFloat(BitsAt(packed, i, 6), 3, 2, 3); });
    case kFloat6E2M3:
      return Each<double>(elements,
                          [&](uint64_t i) { return SmallFloat(BitsAt(packed, i, 6), 2, 3, 1); });
    case kHiFloat8:
      return Each<double>(elements, [&](uint64_t i) { return HiFloat8ToDouble(byte_at(i)); });
    case kFloat8E8M0:
      return Each<double>(elements, [&](uint64_t i) {
        return byte_at(i) == 255 ? std::numeric_limits<double>::quiet_NaN()
                                 : std::ldexp(1, static_cast<int>(byte_at(i)) - 127);
      });
    case kHalfComplex:
      return Each<float>(elements * 2, [&](uint64_t i) {
        return tensor::Float16ToFloat(LoadLittle<uint16_t>(packed.data() + i * 2));
      });
    case kPlain:
    case kOpaque:
      break;
  }
  return {packed.begin(), packed.end()};
}

namespace {

constexpr std::array<std::string_view, 50> kNames = {
    // 0 and up
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW",
    "FRACTAL_DECONV", "C1HWNC0", "FRACTAL_DECONV_TRANSPOSE", "FRACTAL_DECONV_SP_STRIDE_TRANS",
    "NC1HWC0_C04", "FRACTAL_Z_C04", "CHWN", "DECONV_SP_STRIDE8_TRANS", "HWCN", "NC1KHKWHWC0",
    "BN_WEIGHT", "FILTER_HWCK", "LOOKUP_LOOKUPS", "LOOKUP_KEYS", "LOOKUP_VALUE", "LOOKUP_OUTPUT",
    "LOOKUP_HITS", "C1HWNCoC0", "MD", "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW", "DHWCN",
    "NDC1HWC0", "FRACTAL_Z_3D", "CN", "NC", "DHWNC", "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G",
    // 40 and up
    "RESERVED", "ALL", "NULL", "ND_RNN_BIAS", "FRACTAL_ZN_RNN", "YUV", "YUV_A", "NCL",
    "FRACTAL_Z_WINO", "C1HWC0"};
constexpr std::string_view kBlockWidth = "_C0_";

}  // namespace

std::string FormatName(uint32_t number) {
  return number < kNames.size() ? std::string(kNames[number]) : fmt::format("format {}", number);
}

std::optional<uint32_t> FindFormat(std::string_view name) {
  if (const size_t width = name.find(kBlockWidth); width != std::string_view::npos) {
    name = name.substr(0, width);
  }
  for (size_t number = 0; number < kNames.size(); ++number) {
    if (base::EqualsIgnoringCase(name, kNames[number])) {
      return static_cast<uint32_t>(number);
    }
  }
  return std::nullopt;
}

namespace {

constexpr std::string_view kOverflowType = "Opdebug";
constexpr std::string_view kOverflowName = "Node_OpDebug";

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return base::IsDigit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  });
}

std::optional<uint64_t> Number(std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), base::IsDigit)) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = base::ParseInt(text);
  return number && *number >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*number))
                                : std::nullopt;
}

}  // namespace

bool DumpFileName::is_overflow() const {
  return op_type == kOverflowType && op_name == kOverflowName;
}

std::optional<DumpFileName> ParseDumpFileName(std::string_view text) {
  const std::vector<std::string_view> fields = base::Split(text, '.');
  constexpr size_t kFewest = 4;
  constexpr size_t kMost = 9;
  if (fields.size() < kFewest || fields.size() > kMost || !IsWord(fields[0]) ||
      !IsWord(fields[1])) {
    return std::nullopt;
  }
  std::vector<uint64_t> numbers;
  for (size_t i = 2; i < fields.size(); ++i) {
    const std::optional<uint64_t> number = Number(fields[i]);
    if (!number) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  DumpFileName name;
  name.op_type = fields[0];
  name.op_name = fields[1];
  name.task_id = numbers[0];
  size_t at = 1;
  if (numbers.size() > 2) {
    name.stream_id = numbers[at++];
  }
  name.timestamp = numbers[at++];
  for (std::optional<uint64_t>* further :
       {&name.task_type, &name.context_id, &name.thread_id, &name.device_id}) {
    if (at < numbers.size()) {
      *further = numbers[at++];
    }
  }
  return name;
}

std::string InFileNames(std::string_view op_name) {
  std::string text(op_name);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c == '/' || c == '.' || c == '\\' || c == ' '; }, '_');
  return text;
}

bool IsReplacedName(std::string_view name) {
  const std::string_view stem = name.substr(0, name.find('.'));
  return !stem.empty() && std::all_of(stem.begin(), stem.end(), base::IsDigit);
}

}  // namespace msprobe::io::kernel_dump
