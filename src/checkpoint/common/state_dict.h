// From the tensors of a state dict, each under the keys that lead to it, to the parameters of a
// model: which level holds the model, what belongs to the optimizer, and names that are unique.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/checkpoint/checkpoint.h"
#include "src/io/contents.h"

namespace msprobe::checkpoint {

// File names found inside of files: they may name what lies beside, nothing else.
// An index that says "../../etc/passwd" would otherwise open any file its reader may read.

// Not empty, no folder in it, not "." or "..", no NUL.
inline bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// Where a training run keeps its checkpoints: ROOT/iter_0000005, ROOT/release, and a tracker file
// that names the latest of them.

struct IterationFolder {
  std::filesystem::path folder;
  std::optional<int64_t> iteration;  // from the tracker, else from a folder name iter_NNNNNNN
};

// With latest_checkpointed_iteration.txt in `root`, the folder that it names ("release" included);
// without, `root` itself. An error names the folders that are there instead.
Result<IterationFolder> FindIterationFolder(const std::filesystem::path& root);

// Recognises by name what is not the model in a checkpoint.

// Whether the name (keys joined with '.') belongs to an optimizer's state or to bookkeeping rather
// than to the model.
bool IsOptimizerState(std::string_view name);

// Learning rates, betas, step counts: plain numbers in a checkpoint as
// parameters, so that they are compared as tensors are.

// Adds the optimizer's numbers among the plain values of a file as parameters (learning rate: a 0-d
// one, betas: of shape [2]), and other values as settings.
void AddOptimizerNumbers(const std::vector<NamedScalar>& scalars, Checkpoint& checkpoint);

// One tensor of a state dict before it has its name: parameter.name is set by AddParameters.
struct StateEntry {
  std::vector<std::string> path;  // keys from the top; empty for a file that is one bare tensor
  Parameter parameter;
};

// A tensor as one whole parameter; not ok when the tensor is not. Quantised ones are dequantised
// into memory as far as `memory`, of the whole checkpoint, allows.
StateEntry MakeStateEntry(const NamedTensor& tensor, size_t file, io::ReadBudget& memory);

// The names of the tensors under these paths, in their order; empty for those that are left out.
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
