// Rows for the tensors and plain values of tensor files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"
#include "src/base/threads.h"

namespace msprobe::analysis::inspect {

// One file of tensors, opened by content.
Result<Contents> InspectTensorFile(const Options& options);

// A folder of tensor files (dump_tensor_data): one row per tensor, named after its file. `names`
// are the files in it. A file that cannot be read is a marked row.
Result<Contents> InspectTensorFolder(const Options& options, const std::vector<std::string>& names);

// True for the file names that InspectTensorFolder reads.
bool HasTensorFileName(const std::filesystem::path& name);

}  // namespace msprobe::analysis::inspect
