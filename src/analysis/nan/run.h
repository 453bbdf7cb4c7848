// A whole search: from the folder of a dump to the answer and its result files.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/nan/options.h"
#include "src/analysis/nan/result.h"

namespace msprobe::analysis::nan {

// A rank that cannot be read is a warning as long as another one can be. Of several steps the first
// one with bad values ends the search. Result files appear only where there is something to tell.
Result<Answer> Run(const Options& options);

}  // namespace msprobe::analysis::nan
