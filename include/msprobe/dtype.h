// The element types msprobe knows. One table (src/tensor/dtype.cpp) holds their size and every
// spelling in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace msprobe {

enum class DType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
  kComplex64,
  kComplex128,
};
inline constexpr int kDTypeCount = 19;

enum class DTypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBool, kComplex };

struct DTypeInfo {
  DType dtype;
  DTypeKind kind;
  uint8_t size_bytes;          // of one element
  std::string_view name;       // "float32", as NumPy and PyTorch spell it without prefix
  std::string_view mindspore;  // "Float32"; empty when MindSpore has no such type
  std::string_view
      numpy_descr;  // "<f4", as a .npy header spells it; empty when NumPy has no such type
  std::string_view safetensors;  // "F32"; empty when the format has no such type
};

const DTypeInfo& GetDTypeInfo(DType dtype);
inline size_t DTypeSize(DType dtype) { return GetDTypeInfo(dtype).size_bytes; }
inline std::string_view DTypeName(DType dtype) { return GetDTypeInfo(dtype).name; }

// Accepts "float32", "torch.float32", "Float32" and the aliases "float", "double", "half", ...;
// nothing else.
std::optional<DType> ParseDType(std::string_view text);

}  // namespace msprobe
