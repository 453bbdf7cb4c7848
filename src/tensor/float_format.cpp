#include "src/tensor/float_format.h"

namespace msprobe::tensor {

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

DType PartOf(DType dtype) {
  return dtype == DType::kComplex64    ? DType::kFloat32
         : dtype == DType::kComplex128 ? DType::kFloat64
                                       : dtype;
}

}  // namespace msprobe::tensor
