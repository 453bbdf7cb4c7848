// A whole recheck: from the folders of one or two dumps to the answer and its table.
#pragma once

#include <optional>

#include "msprobe/status.h"

#include "src/analysis/recheck/dump_entries.h"
#include "src/analysis/recheck/options.h"
#include "src/analysis/recheck/result.h"

namespace msprobe::analysis::recheck {

// Steps and ranks of two dumps are paired by their numbers. A rank that cannot be read is a warning
// as long as another one can be. Memory: the tensors of one call, and what is computed from them.
Result<Answer> Run(const Options& options);

// One call of one rank; the name's direction tells which half. `others`: communication and what
// only the next step tells is not checkable without them.
Result<CallVerdict> RecheckCall(const DumpEntries& entries, std::string_view name,
                                const Precision& precision, base::ThreadPool& pool,
                                const reference::OtherCalls& others = {});

}  // namespace msprobe::analysis::recheck
