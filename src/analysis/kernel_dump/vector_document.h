// What comparisons of kernel dumps by the vendor's measures answer.
#pragma once

#include <array>

#include "src/analysis/kernel_dump/element_report.h"
#include "src/analysis/kernel_dump/file_compare.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/report/document.h"

namespace msprobe::analysis::kernel_dump {

inline constexpr std::array<report::GateLevel, 1> kVectorGateLevels = {
    {{"different",
      "a tensor beyond the limits of one of the measures, or without a partner; with -op, any "
      "element that differs"}}};

report::Document MakeDocument(const VectorFindings& findings);
report::Document MakeDocument(const FileComparison& comparison);
report::Document MakeDocument(const ElementReportOptions& options, const ElementReport& report);

}  // namespace msprobe::analysis::kernel_dump
