// Tensors of an operator that failed, as .pt files.
#pragma once

#include <filesystem>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/frames.h"
#include "src/analysis/accuracy/check/shared_memory.h"

namespace msprobe::analysis::accuracy {

// <operator>.forward.input.<i>.pt, .forward.kwargs, .forward.output.bench, .forward.output.device,
// .backward.input, .backward.output.bench, .backward.output.device; i counts every leaf.
Status SaveErrorData(const std::filesystem::path& folder, std::string_view name,
                     const MadeCall& call, SharedMemory& memory, const WorkerAnswer& answer);

}  // namespace msprobe::analysis::accuracy
