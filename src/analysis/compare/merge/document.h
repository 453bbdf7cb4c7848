// What `merge_result` answers.
#pragma once

#include "src/analysis/compare/merge/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::compare::merge {

report::Document MakeDocument(const Summary& run);

}  // namespace msprobe::analysis::compare::merge
