// The input as a MindSpore checkpoint, its slices joined and apart.
#include <cstdint>

#include "src/io/contents.h"
#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  for (const bool gather : {true, false}) {
    msprobe::TensorFile::Options options;
    options.gather_slices = gather;
    options.max_inflated_bytes = 1 << 20;
    TensorFileContents contents;
    if (!ReadMindSpore({reinterpret_cast<const std::byte*>(data), size}, options, contents).ok()) {
      return 0;
    }
    for (const msprobe::NamedTensor& tensor : contents.tensors) {
      size_t bytes = 0;
      for (const std::span<const std::byte> slice : tensor.slices) {
        bytes += slice.size();
      }
      if (!tensor.slices.empty() && bytes != tensor.view.size_bytes()) {
        __builtin_trap();
      }
    }
    if (gather) {
      TouchTensors(contents);
    }
  }
  return 0;
}
