#include <cstddef>
#include <cstdint>
#include <span>

#include "src/io/safetensors.h"
#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  TensorFileContents contents;
  if (ReadSafetensors(file, contents).ok()) {
    TouchTensors(contents);
    (void)ReadShardOffsets(file);
  }
  return 0;
}
