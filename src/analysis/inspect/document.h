// What `show` answers: what something is and how much of it there is, and a row per thing in it.
#pragma once

#include "src/analysis/inspect/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::inspect {

// Takes the table out of `result`. `filtered`: rows were left out by their names. Without `summary`
// there are rows only.
report::Document MakeDocument(Contents result, bool filtered, bool summary);

}  // namespace msprobe::analysis::inspect
