#include "src/reference/arithmetic/rounding.h"

namespace msprobe::reference {

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

}  // namespace msprobe::reference
