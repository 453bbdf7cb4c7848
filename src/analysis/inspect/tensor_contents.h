// Rows for the tensors and plain values of tensor files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/analysis/inspect/inspect.h"
#include "src/base/threads.h"
#include "src/kernels/stats.h"

namespace msprobe::analysis::inspect {

// Statistics of many tensors of one or several files, in parallel, with memory that does not grow
// with the tensors.

// Reads one tensor in blocks. `scratch` is reused from call to call. `file` owns the tensor's
// bytes.
kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch);

// One file of tensors, opened by content.
Result<Contents> InspectTensorFile(const Options& options);

// A folder of tensor files (dump_tensor_data): one row per tensor, named after its file. `names`
// are the files in it. A file that cannot be read is a marked row.
Result<Contents> InspectTensorFolder(const Options& options, const std::vector<std::string>& names);

// A folder of a quantised Hugging Face model, one row for each parameter: its format, its values
// and the range of its scales, instead of the tensors that codes and scales are stored in. nullopt
// for other folders.
std::optional<Contents> InspectQuantisedFolder(const Options& options);

// True for the file names that InspectTensorFolder reads.
bool HasTensorFileName(const std::filesystem::path& name);

// Tables beside dumps: statistics that a device, ATB or MindSpore wrote as .csv.

// Rows and columns as they are.
Result<Contents> InspectTable(const Options& options);

}  // namespace msprobe::analysis::inspect
