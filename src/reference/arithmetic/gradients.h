// Gradients of taped results.
#pragma once

#include <unordered_map>
#include <vector>

#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {

struct Gradients {
  // Of every tensor that was passed; in the shape of the tensor.
  std::unordered_map<const Tensor*, Value> of;
  // What a single step passed on to a tensor of shape `parent`, before it was summed over what was
  // broadcast, and with the gradients of other steps: hooks of autograd see these.
  struct Passed {
    Value gradient;
    Shape parent;
  };
  std::vector<Passed> passed;
  // Those that hooks may see, in the order in which they became known, results first.
  std::vector<const Tensor*> order;
};

// `results` and the gradients that reach them; null: none.
Gradients FollowGradients(const Arithmetic& arithmetic, const std::vector<Value>& results,
                          const std::vector<Value>& gradients);

}  // namespace msprobe::reference
