#include "src/analysis/perf/kernel_kinds.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {}  // namespace

OperatorKind KindOfOperator(std::string_view name) {
  const std::string lower = base::AsciiLower(name);
  if (base::ContainsAny(lower, {"flash_attention", "fusion_attention", "flashattn",
                                "xformers_flash", "efficient_attention", "flash2attn"})) {
    return OperatorKind::kFlashAttention;
  }
  if (base::ContainsAny(lower, {"aten::conv"})) {
    return OperatorKind::kConvolution;
  }
  if (base::ContainsAny(lower, {"aten::addmm", "aten::bmm", "aten::mm", "aten::matmul"})) {
    return OperatorKind::kMatmul;
  }
  return OperatorKind::kOther;
}

bool IsBackwardName(std::string_view name) {
  // "back" holds "backward".
  return base::ContainsAny(base::AsciiLower(name), {"bwd", "back", "grad"});
}

bool IsGpuCubeKernel(std::string_view name) {
  return base::ContainsAny(base::AsciiLower(name), {"gemm", "conv", "cutlass", "wgrad", "gemvx"});
}

bool IsGpuCopy(std::string_view name) {
  return base::ContainsAny(base::AsciiLower(name), {"htod", "dtod", "dtoh", "memset (device)"});
}

NpuKind KindOfNpuKernel(std::string_view name, std::string_view type) {
  const std::string lower_name = base::AsciiLower(name);
  const std::string lower_type = base::AsciiLower(type);
  if (base::ContainsAny(lower_type, {"pagedattention"})) {
    return NpuKind::kPagedAttention;
  }
  if (lower_name.starts_with("aclnninplacecopy") && base::ContainsAny(lower_name, {"tensormove"})) {
    return NpuKind::kTensorMove;
  }
  for (const std::string_view combined :
       {"allgathermatmul", "matmulreducescatter", "matmulallreduce"}) {
    if (lower_name == combined) {
      return NpuKind::kCombined;
    }
  }
  if (base::ContainsAny(lower_type, {"flashattention"})) {
    return NpuKind::kFlashAttention;
  }
  if (lower_type.starts_with("conv")) {
    return NpuKind::kConvolution;
  }
  return base::ContainsAny(lower_type, {"matmul"}) ? NpuKind::kMatmul : NpuKind::kOther;
}

bool IsTransformation(std::string_view kernel_name) {
  return base::ContainsAny(base::AsciiLower(kernel_name), {"cast", "transdata", "transpose"});
}

}  // namespace msprobe::analysis::perf
