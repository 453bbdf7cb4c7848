// How a check of an output or of an operator ended, as results spell it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msprobe::analysis::accuracy {

enum class Outcome : uint8_t { kPass, kWarning, kError, kSkip };

// 26.x writes "warning".
inline constexpr std::string_view OutcomeText(Outcome outcome, bool small_warning = false) {
  constexpr std::array<std::string_view, 4> kTexts = {"pass", "Warning", "error", "SKIP"};
  return outcome == Outcome::kWarning && small_warning ? "warning"
                                                       : kTexts[static_cast<size_t>(outcome)];
}

// The first line of a message that says something.
std::string FirstLine(std::string_view text);

struct OutcomeCounts;
// "113: 60 pass, 51 error, 2 SKIP"
std::string CountsText(const OutcomeCounts& counts);

// How many operators or outputs ended how.
struct OutcomeCounts {
  std::array<uint64_t, 4> counts = {};

  void Add(Outcome outcome) { ++counts[static_cast<size_t>(outcome)]; }
  void Add(const OutcomeCounts& other) {
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += other.counts[i];
    }
  }
  uint64_t Of(Outcome outcome) const { return counts[static_cast<size_t>(outcome)]; }
  uint64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
  uint64_t judged() const { return total() - Of(Outcome::kSkip); }
};

// The names of the checked operators: "Torch.linalg.inv.3", and of their outputs:
// "Torch.linalg.inv.3.forward.output.0".

struct OperatorName {
  std::string_view type;  // "Torch"
  std::string_view api;   // "linalg.inv"
};
// Three parts or four, as all operators that can be checked have; nullopt otherwise.
std::optional<OperatorName> ParseOperatorName(std::string_view name);

struct OutputName {
  std::string_view whole;  // of the operator, "Torch.linalg.inv.3"
  OperatorName parts;
  bool is_backward = false;
};
std::optional<OutputName> ParseOutputName(std::string_view name);

// A figure of a results cell, and how it is spelled: as the Python tool's arithmetic would leave
// it.

inline constexpr int kDefaultDecimals = 14;

struct MetricNumber {
  // The arithmetic that computed it.
  enum class Form : uint8_t {
    kNone,    // no value: a blank cell
    kWhole,   // an exact 0 of a ratio of nothing: "0"
    kHalf,    // float16: the fewest digits that read back the same
    kSingle,  // float32: the same
    kDouble,  // float64: a fixed number of decimals
  };
  double value = 0;
  Form form = Form::kNone;

  static MetricNumber Double(double value) { return {value, Form::kDouble}; }
  static MetricNumber Zero() { return {0, Form::kWhole}; }
};

// `decimals` of Form::kDouble, 0 to 20.
std::string CellOf(const MetricNumber& number, int decimals);

// The columns of the two kinds of result files, in their order and both languages. Readers accept
// either language.

struct ColumnName {
  std::string_view chinese;
  std::string_view english;

  std::string_view In(bool english_headers) const { return english_headers ? english : chinese; }
};

// Columns of accuracy_checking_details_*.csv: a row per output or gradient.
namespace detail_column {
enum : size_t {
  kApiName,
  kBenchDtype,
  kDeviceDtype,
  kShape,
  kCosine,
  kMaxAbs,
  kHundredth,
  kThousandth,
  kTenThousandth,
  kErrorRate,
  kErrorBalance,
  kRmse,
  kSmallValue,
  kMaxRelative,
  kMeanRelative,
  kInfNan,
  kRelative,
  kAbsolute,
  kUlpMax,
  kUlpMean,
  kUlpShare,
  kStatus,
  kMessage,
  kCount
};
}  // namespace detail_column
inline constexpr std::array<ColumnName, detail_column::kCount> kDetailColumns = {{
    {"API Name", "API Name"},
    {"Bench Dtype", "Bench Dtype"},
    {"DEVICE Dtype", "DEVICE Dtype"},
    {"Shape", "Shape"},
    {"余弦相似度", "Cosine"},
    {"最大绝对误差", "Max absolute error"},
    {"双百指标", "Within 1/100"},
    {"双千指标", "Within 1/1000"},
    {"双万指标", "Within 1/10000"},
    {"二进制一致错误率", "Error rate"},
    {"误差均衡性", "Error balance"},
    {"均方根误差", "RMSE"},
    {"小值域错误占比", "Small value error ratio"},
    {"相对误差最大值", "Max relative error"},
    {"相对误差平均值", "Mean relative error"},
    {"inf/nan错误率", "Inf/NaN error ratio"},
    {"相对误差错误率", "Relative error ratio"},
    {"绝对误差错误率", "Absolute error ratio"},
    {"ULP误差最大值", "Max ULP error"},
    {"ULP误差平均值", "Mean ULP error"},
    {"ULP误差大于阈值占比", "ULP error share above threshold"},
    {"Status", "Status"},
    {"Message", "Message"},
}};

// Columns of accuracy_checking_result_*.csv: a row per operator.
inline constexpr std::array<std::string_view, 4> kResultColumns = {
    "API name", "Forward Test Success", "Backward Test Success", "Message"};

// Columns of api_precision_compare_details_*.csv.
namespace precision_column {
enum : size_t {
  kApiName,
  kSmallValue,  // each followed by its result
  kRmse = 3,
  kMaxRelative = 5,
  kMeanRelative = 7,
  kErrorBalance = 9,
  kInfNan = 11,
  kRelative = 13,
  kAbsolute = 15,
  kErrorRate = 17,
  kUlpMean = 19,
  kUlpShare,
  kUlpShareRatio,
  kUlpStatus,
  kThousandth,
  kThousandthStatus,
  kStatus,
  kAlgorithm,
  kMessage,
  kCount
};
}  // namespace precision_column
inline constexpr std::array<ColumnName, precision_column::kCount> kPrecisionColumns = {{
    {"API Name", "API Name"},
    {"小值域错误比值", "Small value error: ratio"},
    {"小值域判定结果", "Small value error: result"},
    {"均方根误差比值", "RMSE: ratio"},
    {"均方根误差判定结果", "RMSE: result"},
    {"相对误差最大值比值", "Max relative error: ratio"},
    {"相对误差最大值判定结果", "Max relative error: result"},
    {"相对误差平均值比值", "Mean relative error: ratio"},
    {"相对误差平均值判定结果", "Mean relative error: result"},
    {"误差均衡性比值", "Error balance: ratio"},
    {"误差均衡性判定结果", "Error balance: result"},
    {"inf/nan错误率", "Inf/NaN error ratio"},
    {"inf/nan判定结果", "Inf/NaN: result"},
    {"相对误差错误率", "Relative error ratio"},
    {"相对误差判定结果", "Relative error: result"},
    {"绝对误差错误率", "Absolute error ratio"},
    {"绝对误差判定结果", "Absolute error: result"},
    {"二进制一致错误率", "Error rate"},
    {"二进制一致错误率判定结果", "Error rate: result"},
    {"ULP误差平均值", "Mean ULP error"},
    {"ULP误差大于阈值占比", "ULP error share above threshold"},
    {"ULP误差大于阈值占比比值", "ULP error share: ratio"},
    {"ULP误差判定结果", "ULP error: result"},
    {"双千指标", "Within 1/1000"},
    {"双千指标判定结果", "Within 1/1000: result"},
    {"比对结果", "Result"},
    {"比对算法", "Algorithm"},
    {"Message", "Message"},
}};
inline constexpr std::array<std::string_view, 4> kPrecisionResultColumns = {
    "API Name", "Forward Test Success", "Backward Test Success", "Message"};

// A cell without a value.
inline constexpr std::string_view kBlank = " ";

}  // namespace msprobe::analysis::accuracy
