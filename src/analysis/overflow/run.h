// From overflow records to kernels, calls and lines of code.
#pragma once

#include <filesystem>
#include <string>

#include "msprobe/status.h"

#include "src/analysis/overflow/options.h"
#include "src/analysis/overflow/result.h"

namespace msprobe::analysis::overflow {

// kNotFound when the folder holds no overflow record. A record that cannot be read is told in the
// findings, and the others go on.
Result<Findings> Run(const Options& options);

// Whether overflow records lie in a folder or below it, at most six levels down. Looks at names
// only, and not into rank folders of a dump.
bool HoldsRecords(const std::filesystem::path& folder);

// The text of the summary, as the Python tool writes it.
std::string SummaryText(const Findings& findings);

}  // namespace msprobe::analysis::overflow
