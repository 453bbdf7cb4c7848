// The outputs of an operator on a device against those on the CPU: rows for the details file, and
// how it went.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/common/columns.h"
#include "src/analysis/accuracy/common/metric_number.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/output_value.h"
#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

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
