// Torch distributed checkpoints, a folder with .metadata and *.distcp (FSDP's,
// Megatron's torch_dist).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// The .metadata file of a torch distributed checkpoint: which tensors there are, and where the
// chunks of each lie. A pickle, read as inert data: classes
// of PyTorch stand in it, and loading it the usual way would run whatever else it names. Counts are
// limited by the bytes that are there, since a pickle can refer to one object any number of times.

inline constexpr const char* kDistributedMetadataName = ".metadata";

struct DistributedChunk {
  Shape offsets;  // of its first element in the tensor
  Shape sizes;
  size_t file = SIZE_MAX;  // index into DistributedMetadata::files; SIZE_MAX: nowhere
  uint64_t begin = 0;      // of the bytes in that file: one file as torch.save writes it
  uint64_t size_bytes = 0;
  Status status;  // not ok: stored in a way that cannot be read
};

struct DistributedTensor {
  std::vector<std::string> path;  // the keys in the state dict; one when these are not recorded
  std::optional<DType> dtype;
  Shape size;  // sizes and byte count fit in int64
  std::vector<DistributedChunk> chunks;
  Status status;  // not ok: the entry itself makes no sense
};

struct DistributedMetadata {
  std::vector<DistributedTensor> tensors;  // in file order
  std::vector<std::string> files;          // plain names, checked
  std::vector<std::string> warnings;
};

// Errors are kBadFormat. Work and memory stay in proportion to the bytes.
Result<DistributedMetadata> ParseDistributedMetadata(std::span<const std::byte> bytes);

// Megatron's distributed checkpoints keep the layers of a model (and the experts of a layer) in one
// tensor each, stacked along a leading axis.

// "decoder.layers.mlp.linear_fc1.weight" of shape [layers, ...] becomes
// "decoder.layers.0.mlp.linear_fc1.weight" and so on, where the facts say how many there are;
// "...mlp.experts.experts.linear_fc1.weight" of shape [experts, ...] likewise becomes
// "...mlp.experts.local_experts.0.linear_fc1.weight". Everything else stays as it is,
// and so does what would become more parameters than files of `file_bytes` can hold.
std::vector<Parameter> SplitStackedLayers(std::vector<Parameter> parameters,
                                          const ModelFacts& facts, uint64_t file_bytes);

// Chunks are put in their places by views; each file is mapped once. A chunk that cannot be read is
// a matter of its parameter.
Result<Checkpoint> OpenDistributed(const std::filesystem::path& folder, const Options& options);

// True where the folder, or the iteration folder its tracker names, has a .metadata.
bool LooksLikeDistributed(const std::filesystem::path& folder);

}  // namespace msprobe::checkpoint
