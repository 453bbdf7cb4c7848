// Gradients of taped results.
#pragma once

#include <unordered_map>
#include <vector>

#include "src/analysis/recheck/arithmetic/arithmetic.h"

namespace msprobe::analysis::recheck {

struct Gradients {
  // Of every tensor that was passed; in the shape of the tensor.
  std::unordered_map<const Tensor*, Value> of;
  // The same before they were summed over what was broadcast: hooks of autograd see these, too.
  std::vector<Value> unreduced;
  // In the order in which they became known, results first.
  std::vector<const Tensor*> order;
};

// `results` and the gradients that reach them; null: none.
Gradients FollowGradients(const Arithmetic& arithmetic, const std::vector<Value>& results,
                          const std::vector<Value>& gradients);

}  // namespace msprobe::analysis::recheck
