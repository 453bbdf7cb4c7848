#include "src/monitor/batch.h"

#include <algorithm>
#include <array>

namespace msprobe::monitor {
namespace {

struct NamedStatistic {
  Statistic op;
  std::string_view name;
};

constexpr std::array kStatistics = {
    NamedStatistic{Statistic::kNorm, "norm"},
    NamedStatistic{Statistic::kMin, "min"},
    NamedStatistic{Statistic::kMax, "max"},
    NamedStatistic{Statistic::kMean, "mean"},
    NamedStatistic{Statistic::kZeros, "zeros"},
    NamedStatistic{Statistic::kNans, "nans"},
    NamedStatistic{Statistic::kId, "id"},
    NamedStatistic{Statistic::kShape, "shape"},
    NamedStatistic{Statistic::kDType, "dtype"},
    NamedStatistic{Statistic::kStd, "std"},
    NamedStatistic{Statistic::kRms, "rms"},
    NamedStatistic{Statistic::kAmax, "amax"},
    NamedStatistic{Statistic::kInfs, "infs"},
    NamedStatistic{Statistic::kSubnormals, "subnormals"},
    NamedStatistic{Statistic::kCalls, "calls"},
    NamedStatistic{Statistic::kDynamicRange, "dynamic_range"},
    NamedStatistic{Statistic::kValue, "value"},
    NamedStatistic{Statistic::kEntropy, "entropy"},
    NamedStatistic{Statistic::kSoftmaxMax, "softmax_max"},
    NamedStatistic{Statistic::kSpectralRatio, "sr"},
    NamedStatistic{Statistic::kKernelNorm, "kernel_norm"},
    NamedStatistic{Statistic::kRouterWeightSimilarity, "router_weight_similarity"},
    NamedStatistic{Statistic::kTokenExpertEntropy, "per_token_expert_entropy"},
};

}  // namespace

std::string_view StatisticName(Statistic op) {
  const auto* const found =
      std::find_if(kStatistics.begin(), kStatistics.end(),
                   [op](const NamedStatistic& entry) { return entry.op == op; });
  return found == kStatistics.end() ? std::string_view() : found->name;
}

std::optional<Statistic> FindStatistic(std::string_view name) {
  const auto* const found =
      std::find_if(kStatistics.begin(), kStatistics.end(),
                   [name](const NamedStatistic& entry) { return entry.name == name; });
  return found == kStatistics.end() ? std::nullopt : std::optional(found->op);
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
