#include "msprobe/dtype.h"

#include <array>

namespace msprobe {
namespace {

using enum DType;

constexpr std::array<DTypeInfo, kDTypeCount> kTable = {{
    {kFloat64, DTypeKind::kFloat, 8, "float64", "Float64", "<f8", "F64"},
    {kFloat32, DTypeKind::kFloat, 4, "float32", "Float32", "<f4", "F32"},
    {kFloat16, DTypeKind::kFloat, 2, "float16", "Float16", "<f2", "F16"},
    {kBFloat16, DTypeKind::kFloat, 2, "bfloat16", "BFloat16", "", "BF16"},
    {kFloat8E4M3FN, DTypeKind::kFloat, 1, "float8_e4m3fn", "Float8E4M3FN", "", "F8_E4M3"},
    {kFloat8E5M2, DTypeKind::kFloat, 1, "float8_e5m2", "Float8E5M2", "", "F8_E5M2"},
    {kFloat8E4M3FNUZ, DTypeKind::kFloat, 1, "float8_e4m3fnuz", "", "", "F8_E4M3FNUZ"},
    {kFloat8E5M2FNUZ, DTypeKind::kFloat, 1, "float8_e5m2fnuz", "", "", "F8_E5M2FNUZ"},
    {kInt64, DTypeKind::kSigned, 8, "int64", "Int64", "<i8", "I64"},
    {kInt32, DTypeKind::kSigned, 4, "int32", "Int32", "<i4", "I32"},
    {kInt16, DTypeKind::kSigned, 2, "int16", "Int16", "<i2", "I16"},
    {kInt8, DTypeKind::kSigned, 1, "int8", "Int8", "|i1", "I8"},
    {kUInt64, DTypeKind::kUnsigned, 8, "uint64", "UInt64", "<u8", "U64"},
    {kUInt32, DTypeKind::kUnsigned, 4, "uint32", "UInt32", "<u4", "U32"},
    {kUInt16, DTypeKind::kUnsigned, 2, "uint16", "UInt16", "<u2", "U16"},
    {kUInt8, DTypeKind::kUnsigned, 1, "uint8", "UInt8", "|u1", "U8"},
    {kBool, DTypeKind::kBool, 1, "bool", "Bool", "|b1", "BOOL"},
    {kComplex64, DTypeKind::kComplex, 8, "complex64", "Complex64", "<c8", "C64"},
    {kComplex128, DTypeKind::kComplex, 16, "complex128", "Complex128", "<c16", ""},
}};

struct Alias {
  std::string_view text;
  DType dtype;
};
// PyTorch's second names.
constexpr Alias kAliases[] = {
    {"double", kFloat64}, {"float", kFloat32}, {"half", kFloat16},     {"long", kInt64},
    {"int", kInt32},      {"short", kInt16},   {"cfloat", kComplex64}, {"cdouble", kComplex128},
};

}  // namespace

const DTypeInfo& GetDTypeInfo(DType dtype) { return kTable[static_cast<size_t>(dtype)]; }

std::optional<DType> ParseDType(std::string_view text) {
  for (std::string_view prefix : {"torch.", "mindspore."}) {
    if (text.starts_with(prefix)) {
      text.remove_prefix(prefix.size());
    }
  }
  for (const DTypeInfo& info : kTable) {
    if (text == info.name || (!info.mindspore.empty() && text == info.mindspore)) {
      return info.dtype;
    }
  }
  for (const Alias& alias : kAliases) {
    if (text == alias.text) {
      return alias.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace msprobe
