// From the tensors of a state dict, each under the keys that lead to it, to the parameters of a
// model: which level holds the model, what belongs to the optimizer, and names that are unique.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/checkpoint/checkpoint.h"
#include "src/io/read_budget.h"

namespace msprobe::checkpoint {

// One tensor of a state dict before it has its name: parameter.name is set by AddParameters.
struct StateEntry {
  std::vector<std::string> path;  // keys from the top; empty for a file that is one bare tensor
  Parameter parameter;
};

// A tensor as one whole parameter; not ok when the tensor is not. Quantised ones are dequantised
// into memory as far as `memory`, of the whole checkpoint, allows.
StateEntry MakeStateEntry(const NamedTensor& tensor, size_t file, io::ReadBudget& memory);

// What the tensors under these paths are called, in their order; empty for those that are left out.
// See AddParameters.
std::vector<std::string> NameParameters(std::span<const std::vector<std::string>> paths,
                                        bool optimizer, std::vector<std::string>& warnings,
                                        bool whole_names = false);

// Appends the parameters of the model, named by their keys joined with '.', below a level called
// "model", "state_dict", "module" or the like where there is one. Optimizer states come along when
// `optimizer`, under all their keys. What is left out for another reason is in the warnings.
// `whole_names`: no level is taken for the one that holds the model.
void AddParameters(std::vector<StateEntry> entries, bool optimizer, Checkpoint& checkpoint,
                   bool whole_names = false);

// An error when there are no parameters; the hint says where they may be.
Status CheckNotEmpty(const Checkpoint& checkpoint, bool optimizer);

}  // namespace msprobe::checkpoint
