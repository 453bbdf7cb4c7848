// The one list of the monitor's statistics: what "ops" of the configuration may name, what columns
// of tables are called, and what the names mean. How they are computed stands in measure.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msprobe::monitor {

// The statistics a user can ask for with "ops", as spelled there. Order of the enum is no order of
// columns: that is the order of the configuration.
enum class Statistic : uint8_t {
  kNorm,
  kMin,
  kMax,
  kMean,
  kZeros,
  kNans,
  kId,
  kShape,
  kDType,
  // Beyond the Python tool's:
  kStd,           // population, sqrt(mean of squares - square of mean)
  kRms,           // norm / sqrt(n)
  kAmax,          // largest |x|
  kInfs,          // number of infinities
  kSubnormals,    // number of values that are not 0 and below the smallest normal of their dtype
  kDynamicRange,  // log2(amax) - log2(smallest |x| that is not 0), of finite values
  kCalls,         // communication: calls of this step
  kValue,         // the one number of a row that is no tensor's
  // Of layer_features.h:
  kEntropy,                 // attention: mean of -sum p ln p over the rows
  kSoftmaxMax,              // attention: mean of the largest p of each row
  kSpectralRatio,           // weight: Frobenius norm / largest singular value
  kKernelNorm,              // weight: largest singular value, by power iteration
  kRouterWeightSimilarity,  // experts: mean cosine between the weights of two
  kTokenExpertEntropy       // experts: mean of -sum p ln p over the tokens
};

// As the configuration and the head of a table spell it.
std::string_view StatisticName(Statistic op);
std::optional<Statistic> FindStatistic(std::string_view name);

}  // namespace msprobe::monitor
