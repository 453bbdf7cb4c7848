// The .metadata file of a torch distributed checkpoint: which tensors there are, and where the
// chunks of each lie. A pickle, read as inert data: classes
// of PyTorch stand in it, and loading it the usual way would run whatever else it names. Counts are
// limited by the bytes that are there, since a pickle can refer to one object any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::checkpoint {

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

}  // namespace msprobe::checkpoint
