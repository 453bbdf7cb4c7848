// A tensor's entry of a dump.json.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/generator.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::accuracy {

// An object with a dtype and a shape.
bool IsTensorRecord(const json::ValueTree& tree, uint32_t place);
// An error when the shape is none, or has more elements than memory could hold.
Result<TensorRecord> ReadTensorRecord(const json::ValueTree& tree, uint32_t place);

}  // namespace msprobe::analysis::accuracy
