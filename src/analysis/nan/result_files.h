// The answer as files and as JSON.
#pragma once

#include <string>

#include "msprobe/status.h"

#include "src/analysis/nan/options.h"
#include "src/analysis/nan/result.h"

namespace msprobe::analysis::nan {

// Nothing is written, not even the folder, when there is nothing to tell. Adds the paths to
// `answer.files`.
Status WriteResultFiles(const Options& options, StepAnswer& answer);

// The layout that readers of the Python tool's result know: ranks, each a list of operators with
// their data, modules and stack.
std::string AnomalyJson(const StepAnswer& answer);

// Everything that is known, for programs: strict JSON, NaN and infinities as text.
std::string AnswerJson(const Answer& answer, int exit_code);

}  // namespace msprobe::analysis::nan
