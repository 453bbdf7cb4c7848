#include <cstdint>

#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  TensorFileContents contents;
  if (ReadAtb({reinterpret_cast<const std::byte*>(data), size}, contents).ok()) {
    TouchTensors(contents);
  }
  return 0;
}
