// Quantised parameters of a checkpoint as one parameter each: codes, scales, zero points and group
// indices, which lie in tensors of their own, become one tensor of codes that reads as values.
#pragma once

#include "src/checkpoint/checkpoint.h"
#include "src/json/document.h"

namespace msprobe::checkpoint {

// `quantization_config` itself, or the root of hf_quant_config.json. What it does not know is left
// out: names and shapes decide.
QuantisationFacts ReadQuantisation(const json::Json& config);

// Replaces what belongs together, recognised by names, dtypes and shapes. Parts that do not fit
// make a parameter that cannot be read; its status names both shapes.
void FoldQuantised(Checkpoint& checkpoint);

}  // namespace msprobe::checkpoint
