// Memory snapshots of PyTorch: any pickle, and what its numbers add up to.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/analysis/memory/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::memory;
  const auto snapshot = ReadSnapshotBytes({reinterpret_cast<const std::byte*>(data), size});
  if (!snapshot.ok()) {
    return 0;
  }
  uint64_t bytes = 0;
  for (const StackAmount& of : snapshot->stacks) {
    bytes += of.live.bytes;
  }
  if (bytes != snapshot->live.bytes || snapshot->live.bytes > snapshot->reserved ||
      snapshot->stuck > snapshot->reserved) {
    std::abort();
  }
  return 0;
}
