#include "src/analysis/recheck/arithmetic/rounding.h"

namespace msprobe::analysis::recheck {

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {0x1p-53, 0x1p-1074, 0x1p-1022, std::numeric_limits<double>::max()};
    case DType::kFloat32:
      return {0x1p-24, 0x1p-149, 0x1p-126, std::numeric_limits<float>::max()};
    case DType::kFloat16:
      return {0x1p-11, 0x1p-24, 0x1p-14, 65504};
    case DType::kBFloat16:
      return {0x1p-8, 0x1p-133, 0x1p-126, 0x1.FEp127};
    case DType::kFloat8E4M3FN:
      return {0x1p-4, 0x1p-9, 0x1p-6, 448};
    case DType::kFloat8E5M2:
      return {0x1p-3, 0x1p-16, 0x1p-14, 57344};
    case DType::kFloat8E4M3FNUZ:
      return {0x1p-4, 0x1p-10, 0x1p-7, 240};
    case DType::kFloat8E5M2FNUZ:
      return {0x1p-3, 0x1p-17, 0x1p-15, 57344};
    default:
      return {};
  }
}

bool IsFloat(DType dtype) { return GetDTypeInfo(dtype).kind == DTypeKind::kFloat; }

Rounding Rounding::Of(DType storage, bool steps) {
  Rounding rounding;
  rounding.storage = storage;
  rounding.stored = FormatOf(storage);
  const bool is_narrow = IsFloat(storage) && DTypeSize(storage) < DTypeSize(DType::kFloat32);
  rounding.working =
      !IsFloat(storage) || (is_narrow && !steps) ? FormatOf(DType::kFloat32) : rounding.stored;
  rounding.unit = storage == DType::kFloat64 ? 2 * rounding.working.unit : rounding.working.unit;
  return rounding;
}

}  // namespace msprobe::analysis::recheck
