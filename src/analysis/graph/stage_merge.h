// Inside of the room: stages of a pipeline joined into one model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/analysis/graph/merged_dump.h"

namespace msprobe::analysis::graph {

// One of the stages of a pipeline, of which virtual pipelines have several on each rank.
struct StagePlace {
  int64_t rank = 0;              // that stands in the names of its calls
  bool is_first_rank = false;    // of the pipeline: its calls keep their names
  std::optional<int64_t> chunk;  // the part of the rank's model, "Module.<chunk>."; none: all of it
};

// Puts a stage behind those that `whole` holds. Layers of later stages are numbered on, their calls
// get the rank into their names, and modules around all stages have the input of the first and the
// output of the last one. Parts become the first part: "Module.1.x" is "Module.0.x".
void MergeStage(MergedModel& whole, const MergedModel& stage, const StagePlace& place);

// How many parts the model of a rank has; 0: its names tell of none.
int64_t CountChunks(const MergedModel& model);

}  // namespace msprobe::analysis::graph
