// Tensors of which every rank wrote its part into a file of its own, as
// torch.distributed.checkpoint does with .safetensors.
#pragma once

#include "src/checkpoint/parameter.h"

namespace msprobe::checkpoint {

// Moves a parameter to its place in the whole. The whole's shape is nowhere: it reaches as far as
// its parts do. An offset that cannot be becomes the status.
void MoveTo(const Shape& offset, Parameter& part);

// Takes the pieces of one more part, which was moved to its place. A part that cannot be read makes
// the whole unreadable.
void JoinShard(Parameter& part, Parameter& whole);

// After the last part: a gap or an overlap becomes the parameter's status.
void CloseShards(Parameter& whole);

}  // namespace msprobe::checkpoint
