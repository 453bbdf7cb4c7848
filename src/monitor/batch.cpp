#include "src/monitor/batch.h"

#include <algorithm>
#include <array>

namespace msprobe::monitor {

namespace {

struct NamedOp {
  Op op;
  std::string_view name;
};

// The one list of what can be asked for.
constexpr std::array kOps = {
    NamedOp{Op::kNorm, "norm"},
    NamedOp{Op::kMin, "min"},
    NamedOp{Op::kMax, "max"},
    NamedOp{Op::kMean, "mean"},
    NamedOp{Op::kZeros, "zeros"},
    NamedOp{Op::kNans, "nans"},
    NamedOp{Op::kId, "id"},
    NamedOp{Op::kShape, "shape"},
    NamedOp{Op::kDType, "dtype"},
    NamedOp{Op::kStd, "std"},
    NamedOp{Op::kRms, "rms"},
    NamedOp{Op::kAmax, "amax"},
    NamedOp{Op::kInfs, "infs"},
    NamedOp{Op::kSubnormals, "subnormals"},
    NamedOp{Op::kCalls, "calls"},
    NamedOp{Op::kDynamicRange, "dynamic_range"},
    NamedOp{Op::kValue, "value"},
    NamedOp{Op::kEntropy, "entropy"},
    NamedOp{Op::kSoftmaxMax, "softmax_max"},
    NamedOp{Op::kSpectralRatio, "sr"},
    NamedOp{Op::kKernelNorm, "kernel_norm"},
    NamedOp{Op::kRouterWeightSimilarity, "router_weight_similarity"},
    NamedOp{Op::kTokenExpertEntropy, "per_token_expert_entropy"},
};

}  // namespace

std::string_view OpName(Op op) {
  const auto* const found =
      std::find_if(kOps.begin(), kOps.end(), [op](const NamedOp& entry) { return entry.op == op; });
  return found == kOps.end() ? std::string_view() : found->name;
}

std::optional<Op> FindOp(std::string_view name) {
  const auto* const found = std::find_if(
      kOps.begin(), kOps.end(), [name](const NamedOp& entry) { return entry.name == name; });
  return found == kOps.end() ? std::nullopt : std::optional(found->op);
}

std::optional<double> NumberOf(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const auto* boolean = std::get_if<bool>(&value)) {
    return *boolean ? 1.0 : 0.0;
  }
  return std::nullopt;
}

}  // namespace msprobe::monitor
