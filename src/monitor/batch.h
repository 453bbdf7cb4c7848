// The data that the engine hands to its writers: the rows of one table and step, as values, not
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace msprobe::monitor {

// The one list of the monitor's statistics: what "ops" of the configuration may name, what columns
// of tables are called, and what the names mean. How they are computed stands in measure.h.

// The statistics a user can ask for with "ops", as spelled there. Order of the enum is not an order
// of columns: that is the order of the configuration.
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
  kValue,         // the one number of a row that does not come from a tensor
  // Operations of settings.h:
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

// Min and max of integers stay integers, those of bool stay bool; monostate: none (written "nan").
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

// The value as a number: nullopt for no value and for texts; a bool is 0 or 1.
std::optional<double> NumberOf(const Value& value);

struct Row {
  int32_t stage = 0;
  std::string name;  // with "_<index>", without stage and micro step: "0.norm1.output_1"
  std::string tag;   // "<stage>:<name>[:<micro step>]/rank<R>/<task>"
  std::optional<int32_t> micro_step;
  int64_t call_id = -1;       // running number of the values within the step; -1: of the parameters
  std::vector<Value> values;  // as many as the batch has columns
};

struct Batch {
  std::string table;  // "actv", "grad_reduced", ..., the stem of the file
  int64_t step = 0;
  bool has_micro_step = false;  // the column exists
  std::vector<Statistic> columns;
  std::vector<Row> rows;
};

}  // namespace msprobe::monitor
