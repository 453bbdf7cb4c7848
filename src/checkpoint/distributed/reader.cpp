#include "src/checkpoint/distributed/reader.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/checkpoint/common/iteration_folder.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/checkpoint/distributed/metadata.h"
#include "src/checkpoint/distributed/stacked_layers.h"
#include "src/checkpoint/megatron/args.h"
#include "src/checkpoint/megatron/names.h"
#include "src/io/dense_view.h"

namespace msprobe::checkpoint {
namespace {

constexpr const char* kCommonName = "common.pt";  // Megatron's arguments and counters

// The chunks of the parameters that are wanted, each file opened once.
class ChunkReader {
 public:
  ChunkReader(const DistributedMetadata& metadata, Checkpoint& checkpoint)
      : metadata_(metadata), checkpoint_(checkpoint), wanted_(metadata.files.size()) {}

  void Add(std::string name, const DistributedTensor& tensor) {
    Parameter parameter;
    parameter.name = std::move(name);
    parameter.shape = tensor.size;
    parameter.dtype = tensor.dtype.value_or(DType::kFloat32);
    parameter.status = tensor.status;
    const size_t number = checkpoint_.parameters.size();
    for (const DistributedChunk& chunk : tensor.chunks) {
      if (!parameter.status.ok()) {
        break;
      }
      parameter.status = chunk.status;
      if (chunk.status.ok() && ElementCount(chunk.sizes) > 0) {
        wanted_[chunk.file].push_back({number, &chunk});
      }
    }
    checkpoint_.parameters.push_back(std::move(parameter));
  }

  void ReadAll() {
    for (size_t file = 0; file < wanted_.size(); ++file) {
      if (!wanted_[file].empty()) {
        ReadFile(file);
      }
    }
    if (unreadable_.more() > 0) {
      checkpoint_.warnings.push_back(
          fmt::format("{} more files cannot be read", unreadable_.more()));
    }
    for (Parameter& parameter : checkpoint_.parameters) {
      if (parameter.status.ok()) {
        parameter.status = CheckTiling(parameter);
      }
      if (!parameter.status.ok()) {
        parameter.pieces.clear();
      }
    }
  }

 private:
  struct Wanted {
    size_t parameter;
    const DistributedChunk* chunk;
  };

  void ReadFile(size_t file) {
    const std::string& name = metadata_.files[file];
    std::vector<Wanted>& wanted = wanted_[file];
    std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
      return a.chunk->begin < b.chunk->begin;
    });
    // Parts that overlap would let a small file cost any amount of work.
    std::vector<TensorFile::Part> parts;
    std::vector<Wanted> readers;
    uint64_t end = 0;
    for (const Wanted& each : wanted) {
      const DistributedChunk& chunk = *each.chunk;
      if (chunk.begin < end) {
        Fail(each, BadFormatError(fmt::format("{}: the chunk at byte {} overlaps another", name,
                                              chunk.begin)));
        continue;
      }
      parts.push_back({chunk.begin, chunk.size_bytes});
      readers.push_back(each);
      end = chunk.begin + chunk.size_bytes;
    }
    TensorFile::Options options;
    options.verify_stored_up_to_bytes = 0;  // opening reads no elements
    Result<TensorFile> opened = TensorFile::OpenParts(checkpoint_.path / name, parts, options);
    if (!opened.ok()) {
      const Status status = std::move(opened).status();
      unreadable_.Add(
          fmt::format("{}: {} chunks cannot be read ({})", name, readers.size(), status.message()));
      for (const Wanted& each : readers) {
        Fail(each, status);
      }
      return;
    }
    const size_t number = checkpoint_.files.size();
    checkpoint_.files.push_back(*std::move(opened));
    const TensorFile& tensors = checkpoint_.files.back();
    for (const std::string& warning : tensors.warnings()) {
      checkpoint_.warnings.push_back(fmt::format("{}: {}", name, warning));
    }
    for (size_t i = 0; i < readers.size(); ++i) {
      Place(readers[i], tensors.tensors()[i], number, name);
    }
  }

  void Place(const Wanted& wanted, const NamedTensor& tensor, size_t file,
             const std::string& file_name) {
    Status status = tensor.status;
    if (status.ok() && tensor.view.shape != wanted.chunk->sizes) {
      status = BadFormatError(fmt::format(
          "the chunk at {} has shape {} instead of {}", ShapeText(wanted.chunk->offsets),
          ShapeText(tensor.view.shape), ShapeText(wanted.chunk->sizes)));
    }
    if (!status.ok()) {
      Fail(wanted, std::move(status).AddContext(file_name));
      return;
    }
    Parameter& parameter = checkpoint_.parameters[wanted.parameter];
    if (parameter.pieces.empty()) {
      parameter.dtype = tensor.view.dtype;
    }
    parameter.pieces.push_back({tensor.view, wanted.chunk->offsets, file});
  }

  void Fail(const Wanted& wanted, Status status) {
    Parameter& parameter = checkpoint_.parameters[wanted.parameter];
    if (parameter.status.ok()) {
      parameter.status = std::move(status);
    }
  }

  const DistributedMetadata& metadata_;
  Checkpoint& checkpoint_;
  std::vector<std::vector<Wanted>> wanted_;  // per file
  base::LimitedWarnings unreadable_{checkpoint_.warnings};
};

// Megatron's arguments, if this is one of its checkpoints: facts, iteration, and names as its other
// checkpoints have them.
void ApplyMegatron(const Options& options, Checkpoint& checkpoint) {
  const std::filesystem::path path = checkpoint.path / kCommonName;
  if (!base::Exists(path)) {
    return;
  }
  const Result<TensorFile> common = TensorFile::Open(path);
  if (!common.ok()) {
    checkpoint.warnings.push_back(fmt::format(
        "without Megatron's arguments stacked layers stay stacked: {}", common.status().message()));
    return;
  }
  for (const std::string& warning : common->warnings()) {
    checkpoint.warnings.push_back(fmt::format("{}: {}", kCommonName, warning));
  }
  const MegatronArgs arguments(*common);
  if (arguments.empty()) {
    return;
  }
  checkpoint.facts = FactsFromArgs(arguments);
  checkpoint.parameters = SplitStackedLayers(std::move(checkpoint.parameters), checkpoint.facts,
                                             checkpoint.file_bytes());
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : checkpoint.parameters) {
    names.insert(parameter.name);
  }
  for (Parameter& parameter : checkpoint.parameters) {
    std::string name = TranslateMegatronName(parameter.name, !options.compatible_merge);
    if (names.insert(name).second) {
      parameter.name = std::move(name);
    }
  }
}

}  // namespace

bool LooksLikeDistributed(const std::filesystem::path& folder) {
  const Result<IterationFolder> found = FindIterationFolder(folder);
  return found.ok() && base::Exists(found->folder / kDistributedMetadataName);
}

Result<Checkpoint> OpenDistributed(const std::filesystem::path& folder, const Options& options) {
  MSP_ASSIGN_OR_RETURN(const IterationFolder found, FindIterationFolder(folder));
  Checkpoint checkpoint;
  checkpoint.kind = Kind::kDistributed;
  checkpoint.path = found.folder;
  checkpoint.iteration = found.iteration;
  const std::filesystem::path path = found.folder / kDistributedMetadataName;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(DistributedMetadata metadata, ParseDistributedMetadata(bytes.bytes()),
                       path.native());
  checkpoint.warnings = metadata.warnings;
  std::vector<std::vector<std::string>> paths;
  paths.reserve(metadata.tensors.size());
  for (DistributedTensor& tensor : metadata.tensors) {
    paths.push_back(std::move(tensor.path));
  }
  std::vector<std::string> names = NameParameters(paths, options.optimizer, checkpoint.warnings);
  ChunkReader reader(metadata, checkpoint);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) {
      reader.Add(std::move(names[i]), metadata.tensors[i]);
    }
  }
  reader.ReadAll();
  MSP_RETURN_IF_ERROR(CheckNotEmpty(checkpoint, options.optimizer), found.folder.native());
  if (checkpoint.files.empty() && !checkpoint.parameters.front().status.ok()) {
    return Status(checkpoint.parameters.front().status)
        .AddContext(fmt::format("{}: parameter {}", found.folder.native(),
                                checkpoint.parameters.front().name));
  }
  ApplyMegatron(options, checkpoint);
  return checkpoint;
}

}  // namespace msprobe::checkpoint
