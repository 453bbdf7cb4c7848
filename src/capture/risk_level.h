// How likely a fault of the values is in an API: what risk_level leaves out of a capture.
#pragma once

#include <string_view>

#include "src/capture/settings.h"

namespace msprobe::capture {

// Whether calls of `api` ("matmul", "linalg.multi_dot"), whose names begin with `kind` ("Torch",
// "Tensor", "NPU"), are recorded at this level. kFocus leaves out what only moves or makes
// elements, kCore keeps matrix products, convolutions, normalisations, embeddings, attention,
// collectives and fused operators. The lists are those of the Python tool, with linear and
// chain_matmul in kCore.
bool IsAtRisk(RiskLevel level, std::string_view kind, std::string_view api);

}  // namespace msprobe::capture
