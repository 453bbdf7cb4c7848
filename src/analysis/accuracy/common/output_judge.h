// The outputs of an operator on a device against those on the CPU: rows for the details file, and
// how it went.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

// The result of an operator, or the gradients of its arguments: tensors, numbers, texts, and lists
// of them.

struct OutputValue {
  enum class Kind : uint8_t {
    kNone,
    kTensor,
    kScalar,  // bool, int, float, str
    kList,    // also a tuple
    kDict,
    kOther,
  };
  Kind kind = Kind::kNone;
  std::string type;                // of Python: "float", "list", "torch.Size"
  TensorView tensor;               // borrowed
  std::string text;                // of a scalar: equal texts of one type are equal values
  std::vector<OutputValue> items;  // of lists and dicts
  std::vector<std::string> keys;   // of dicts
};

// Figures of one output of floats: the device's values against those of the CPU, which computed in
// a wider dtype. Which metric belongs to which standard:
// config/accuracy_standards.json and standards.h.

struct FloatMetrics {
  uint64_t count = 0;
  double largest_device = 0;  // magnitudes; NaN where there is one
  double largest_bench = 0;
  double cosine = 0;  // NaN where a value is not finite
  MetricNumber max_abs;
  // Shares of elements whose relative error is below 1/100, 1/1000, 1/10000.
  double hundredth = 0;
  double thousandth = 0;
  double ten_thousandth = 0;
  // Figures of the standard; the others have no value.
  MetricNumber error_rate;
  MetricNumber error_balance;
  MetricNumber rmse;
  MetricNumber small_value;
  MetricNumber max_relative;
  MetricNumber mean_relative;
  MetricNumber inf_nan;
  MetricNumber relative;
  MetricNumber absolute;
  MetricNumber ulp_max;
  MetricNumber ulp_mean;
  MetricNumber ulp_share;
  // There are inf or NaN, at the same places and the same there.
  bool has_equal_non_finite = false;
};

struct FloatMetricsOptions {
  Standard standard = Standard::kBenchmark;
  bool with_standard = true;  // false: only what every output has
  // Leaves out elements that are the same inf or NaN on both sides.
  bool finite_part = false;
};

// Both have the same shape, not empty, and float dtypes. Passes over the views twice, in blocks;
// the result does not depend on anything but the values.
FloatMetrics MeasureFloats(const TensorView& device, const TensorView& bench, const Limits& limits,
                           const FloatMetricsOptions& options);

struct OutputJudgeOptions {
  StandardVersion version = StandardVersion::k811;
  int decimals = kDefaultDecimals;
  // Judges what the Python tool cannot or gets wrong: lists in lists, dicts, all integer and
  // complex dtypes, inf and NaN that are the same on both sides; an error stays one whatever
  // follows.
  bool strict = false;
  bool has_float8_input = false;
};

struct DetailRow {
  std::array<std::string, detail_column::kCount> cells;
  Outcome outcome = Outcome::kPass;
};
DetailRow BlankDetailRow(std::string name, Outcome outcome, std::string message,
                         StandardVersion version);

// The message of the first error, one line; empty: there is none.
std::string FirstError(const std::vector<DetailRow>& rows);

struct JudgedOutputs {
  Outcome outcome = Outcome::kPass;
  std::vector<DetailRow> rows;
  double max_abs = 0;  // of all rows that have one
  // Errors only because of inf or NaN that are the same on both sides.
  bool only_equal_non_finite = false;
};

// `operator_name`: "Torch.matmul.0"; `direction`: "forward" or "backward". An error is what makes
// the Python tool give an operator up.
Result<JudgedOutputs> JudgeOutputs(std::string_view operator_name, std::string_view direction,
                                   const OutputValue& bench, const OutputValue& device,
                                   const Standards& standards, const OutputJudgeOptions& options);

// "(4, 33)", "(16,)", "()"
std::string TupleText(const Shape& shape);

}  // namespace msprobe::analysis::accuracy
