// compare --repro: the first diverging call as a folder that makes it again.
#pragma once

#include <cstddef>
#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/compare/summary.h"
#include "src/report/document.h"

namespace msprobe::commands {

// The first computation that diverges, as the wrong side captured it, made small where one is
// wrong; of the NPU side where that is not known. Adds its files to the document, or a warning why
// there is nothing to write.
Status WriteFirstDivergence(const analysis::compare::RunSummary& summary,
                            const std::filesystem::path& folder, size_t threads,
                            report::Document& document);

}  // namespace msprobe::commands
