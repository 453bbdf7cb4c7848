// The input as the .metadata of a torch distributed checkpoint; what it says is walked.
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/checkpoint/distributed/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::checkpoint;
  const msprobe::Result<DistributedMetadata> metadata =
      ParseDistributedMetadata({reinterpret_cast<const std::byte*>(data), size});
  if (!metadata.ok()) {
    return 0;
  }
  for (const DistributedTensor& tensor : metadata->tensors) {
    const int64_t elements = msprobe::ElementCount(tensor.size);
    for (const DistributedChunk& chunk : tensor.chunks) {
      // What the reader of the chunks relies on.
      const bool placed = chunk.file < metadata->files.size();
      if (tensor.status.ok() && (placed != chunk.status.ok() || tensor.path.empty() ||
                                 msprobe::ElementCount(chunk.sizes) > elements)) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
