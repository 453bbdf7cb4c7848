// One output of an operator on both devices against its standard.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "src/analysis/accuracy/common/columns.h"
#include "src/analysis/accuracy/common/operator_name.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

// A row of a details file.
using DetailCells = std::array<std::string_view, detail_column::kCount>;

struct OutputJudgement {
  std::array<std::string, precision_column::kCount> cells;  // kBlank where there is nothing
  Outcome outcome = Outcome::kSkip;
  // A cell that the standard needs is empty or no number: the message tells which.
  bool is_unusable = false;
  double excess = 0;  // times beyond the limit that is missed most
};

// dtypes that benchmarks are not made for: such outputs are skipped.
bool IsUnsupportedDType(std::string_view dtype);

struct JudgeOptions {
  StandardVersion version = StandardVersion::k811;
  bool english = false;
  bool strict = false;
};

// `name` is that of the NPU's row, taken apart.
OutputJudgement JudgeOutput(const OutputName& name, const DetailCells& npu, const DetailCells& gpu,
                            const Standards& standards, const JudgeOptions& options);

// The judgement of an output that is not looked at.
OutputJudgement SkippedOutput(std::string_view name, std::string_view message);

}  // namespace msprobe::analysis::accuracy
