// Which layer of the whole model each pipeline stage begins with. Rank files number layers from 0
// in every stage, so that names of the whole model need the layers of all stages before: counted in
// the files, because arguments need not tell how uneven stages are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/checkpoint/megatron/args.h"

namespace msprobe::checkpoint {

// What the files tell about one part of the pipeline: stage p of virtual stage v is number
// v * stages + p, the order in which the layers follow each other.
struct StageLayers {
  std::vector<std::optional<int64_t>> counts;  // one per part; nothing where no file was readable
  int64_t stages = 1;
};

// The first layer of every part. Layers are counted where all parts are known; where a stage is
// missing, or holds layers without parameters, the arguments decide (num_layers, layers in the
// first and last stage, a list of layers). `warnings` gets a line where counts and arguments
// contradict each other.
std::vector<int64_t> FirstLayers(const StageLayers& layers, const MegatronArgs& args,
                                 std::vector<std::string>& warnings);

// As the Python tool counts: every part is as long as the first one.
std::vector<int64_t> EvenFirstLayers(const StageLayers& layers);

}  // namespace msprobe::checkpoint
