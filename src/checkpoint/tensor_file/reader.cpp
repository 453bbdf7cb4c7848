#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/checkpoint/common/readers.h"
#include "src/checkpoint/common/state_dict.h"

namespace msprobe::checkpoint {

Result<Checkpoint> OpenTensorFile(const std::filesystem::path& file, const Options& options) {
  Checkpoint checkpoint;
  checkpoint.kind = Kind::kTensorFile;
  checkpoint.path = file;
  TensorFile::Options file_options;
  file_options.gather_slices = false;
  MSP_ASSIGN_OR_RETURN(TensorFile opened, TensorFile::Open(file, file_options));
  checkpoint.files.push_back(std::move(opened));
  const TensorFile& tensors = checkpoint.files.back();
  checkpoint.warnings = tensors.warnings();
  if (tensors.format() == TensorFileFormat::kGguf) {
    MSP_RETURN_IF_ERROR(AddGgufParameters(checkpoint), file.native());
    return checkpoint;
  }
  std::vector<StateEntry> entries;
  entries.reserve(tensors.tensors().size());
  io::ReadBudget memory = io::ReadBudget::ForMemory(tensors.size_bytes());
  // As in state_dict(): a TorchScript module has attributes and constants beside its parameters. A
  // frozen one has nothing else.
  const std::vector<NamedTensor>& all = tensors.tensors();
  const bool is_frozen =
      !all.empty() && std::all_of(all.begin(), all.end(),
                                  [](const NamedTensor& tensor) { return tensor.is_attribute; });
  if (is_frozen) {
    checkpoint.warnings.push_back(
        fmt::format("{}: a frozen module without parameters: its attributes and the constants of "
                    "its code are compared",
                    file.native()));
  }
  for (const NamedTensor& tensor : all) {
    if (tensor.is_attribute && !is_frozen) {
      continue;
    }
    entries.push_back(MakeStateEntry(tensor, 0, memory));
  }
  if (options.optimizer) {
    AddOptimizerNumbers(tensors.scalars(), checkpoint);
  }
  if (entries.empty()) {
    checkpoint.warnings.push_back(fmt::format("{}: no tensors in it", file.native()));
    return checkpoint;
  }
  // Attributes of a module tree are named as in its state_dict(): by all levels.
  const bool whole_names = tensors.format() == TensorFileFormat::kTorchScript;
  AddParameters(std::move(entries), options.optimizer, checkpoint, whole_names);
  MSP_RETURN_IF_ERROR(CheckNotEmpty(checkpoint, options.optimizer), file.native());
  return checkpoint;
}

}  // namespace msprobe::checkpoint
