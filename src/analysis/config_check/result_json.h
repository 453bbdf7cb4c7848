// result.json: everything the workbook holds, and the verdict with its findings.
#pragma once

#include <string>

#include "src/analysis/config_check/check.h"

namespace msprobe::analysis::config_check {

std::string_view VerdictName(Verdict verdict);  // "same", "warnings", "different", ...
std::string_view SeverityName(Severity severity);

std::string ResultJson(const CompareOptions& options, const CompareRun& run);

}  // namespace msprobe::analysis::config_check
