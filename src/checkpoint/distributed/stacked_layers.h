// Megatron's distributed checkpoints keep the layers of a model (and the experts of a layer) in one
// tensor each, stacked along a leading axis.
#pragma once

#include <cstdint>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// "decoder.layers.mlp.linear_fc1.weight" of shape [layers, ...] becomes
// "decoder.layers.0.mlp.linear_fc1.weight" and so on, where the facts say how many there are;
// "...mlp.experts.experts.linear_fc1.weight" of shape [experts, ...] likewise becomes
// "...mlp.experts.local_experts.0.linear_fc1.weight". Everything else stays as it is,
// and so does what would become more parameters than files of `file_bytes` can hold.
std::vector<Parameter> SplitStackedLayers(std::vector<Parameter> parameters,
                                          const ModelFacts& facts, uint64_t file_bytes);

}  // namespace msprobe::checkpoint
