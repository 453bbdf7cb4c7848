// msprobe api_precision_compare: whether an NPU is no less accurate than a GPU, operator by
// operator, from the details files of both accuracy checks.
#pragma once

#include <span>
#include <string>

#include "msprobe/status.h"

#include "src/analysis/accuracy/precision_compare/judge.h"
#include "src/analysis/accuracy/precision_compare/options.h"
#include "src/analysis/accuracy/precision_compare/result.h"

namespace msprobe::analysis::accuracy {

Result<PrecisionComparison> Run(const PrecisionOptions& options);

// One operator whose rows are here, as they stand in the details files of both sides; writes
// nothing.
struct ComparedOperator {
  std::string details;  // rows of api_precision_compare_details, as CSV
  std::string results;  // the row of api_precision_compare_result
  Outcome outcome = Outcome::kSkip;
  std::string reason;  // of an error, the first one, in English
};
ComparedOperator CompareOperator(std::span<const DetailCells> npu, std::span<const DetailCells> gpu,
                                 const Standards& standards, const PrecisionOptions& options);

}  // namespace msprobe::analysis::accuracy
