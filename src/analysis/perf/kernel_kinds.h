// What names of operators and kernels say about the work behind them. Names are taken without
// regard to case.
#pragma once

#include <cstdint>
#include <string_view>

namespace msprobe::analysis::perf {

enum class OperatorKind : uint8_t { kOther, kFlashAttention, kConvolution, kMatmul };
OperatorKind KindOfOperator(std::string_view name);

// bwd, backward, back or grad in the name.
bool IsBackwardName(std::string_view name);

// GPU kernels for matrix units (gemm, conv, ...). All others are vector work, flash attention too.
bool IsGpuCubeKernel(std::string_view name);
// GPU copies and fills that run on the computing stream.
bool IsGpuCopy(std::string_view name);

// NPU kernels, by the type that kernel details give, or by name.
enum class NpuKind : uint8_t {
  kOther,
  kPagedAttention,
  kTensorMove,
  kCombined,  // computes and communicates in one
  kFlashAttention,
  kConvolution,
  kMatmul,
};
NpuKind KindOfNpuKernel(std::string_view name, std::string_view type);
// Casts and changes of layout.
bool IsTransformation(std::string_view kernel_name);

}  // namespace msprobe::analysis::perf
