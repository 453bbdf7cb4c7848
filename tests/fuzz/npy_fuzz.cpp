#include <cstdint>

#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  msprobe::TensorFile::Options options;
  options.void16_is_bfloat16 = true;
  TensorFileContents contents;
  if (ReadNpy({reinterpret_cast<const std::byte*>(data), size}, options, contents).ok()) {
    TouchTensors(contents);
  }
  return 0;
}
