#include "src/analysis/kernel_dump/float_text.h"

#include <cmath>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

// bfloat16 and 8-bit floats are float32 by the time NumPy sees them.
DType SeenByNumpy(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kFloat16 ? dtype : DType::kFloat32;
}

std::string FloatText(DType dtype, double value) {
  if (dtype == DType::kFloat64 || !std::isfinite(value)) {
    return base::PythonFloatRepr(value);
  }
  const double rounded = tensor::RoundToDType(dtype, value);
  constexpr int kMostDigits = 9;
  for (int digits = 1; digits < kMostDigits; ++digits) {
    std::string text;
    base::AppendGeneral(rounded, digits, text);
    const std::optional<double> shorter = base::ParseDouble(text);
    if (shorter && tensor::RoundToDType(dtype, *shorter) == rounded) {
      return base::PythonFloatRepr(*shorter);
    }
  }
  return base::PythonFloatRepr(rounded);
}

}  // namespace

std::string NumpyText(DType dtype, double value) {
  switch (GetDTypeInfo(dtype).kind) {
    case DTypeKind::kFloat:
      return FloatText(SeenByNumpy(dtype), value);
    case DTypeKind::kBool:
      return value != 0 ? "True" : "False";
    case DTypeKind::kComplex:
      return FloatText(DType::kFloat64, value);
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      break;
  }
  return fmt::format("{:.0f}", value);
}

std::string NumpyMeanText(DType dtype, double value) {
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat ? FloatText(SeenByNumpy(dtype), value)
                                                       : FloatText(DType::kFloat64, value);
}

}  // namespace msprobe::analysis::kernel_dump
