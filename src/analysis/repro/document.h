// What a reproduction answers.
#pragma once

#include "src/analysis/repro/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::repro {

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::repro
