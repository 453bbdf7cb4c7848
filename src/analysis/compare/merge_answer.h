// What `merge_result` answers.
#pragma once

#include "src/analysis/compare/merge_result.h"
#include "src/report/document.h"

namespace msprobe::analysis {

report::Document MakeDocument(const MergeRun& run);

}  // namespace msprobe::analysis
