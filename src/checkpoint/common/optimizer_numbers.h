// Inside of the room: learning rates, betas, step counts: plain numbers in a checkpoint as
// parameters, so that they are compared as tensors are.
#pragma once

#include <vector>

#include "msprobe/tensor_file.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// Adds the optimizer's numbers among the plain values of a file as parameters (learning rate: a 0-d
// one, betas: of shape [2]), and other values as settings.
void AddOptimizerNumbers(const std::vector<NamedScalar>& scalars, Checkpoint& checkpoint);

}  // namespace msprobe::checkpoint
