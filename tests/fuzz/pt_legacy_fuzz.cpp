// .pt files of before PyTorch 1.6, and files of any format told by their content.
#include <cstdint>

#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  TensorFileContents legacy;
  if (ReadPtLegacy(bytes, legacy).ok()) {
    TouchTensors(legacy);
  }
  msprobe::TensorFile::Options options;
  options.headers_only = true;
  options.max_inflated_bytes = 1 << 20;
  TensorFileContents any;
  static_cast<void>(ReadTensorBytes(bytes, options, any).ok());
  return 0;
}
