// GGUF files: the head, and the blocks of the tensors that it names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "src/io/coded/coded_tensor.h"
#include "src/io/contents.h"
#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  io::TensorFileContents contents;
  if (!io::ReadGguf(file, contents).ok()) {
    return 0;
  }
  io::TouchTensors(contents);
  constexpr int64_t kElements = 700;
  std::vector<float> values(static_cast<size_t>(kElements));
  std::vector<float> bounds(static_cast<size_t>(kElements));
  for (const NamedTensor& tensor : contents.tensors) {
    if (!tensor.status.ok() || tensor.coded == nullptr) {
      continue;
    }
    const int64_t count = ElementCount(tensor.coded->shape());
    if (count < 0) {
      std::abort();
    }
    const int64_t block = std::min(count, kElements);
    const auto elements = static_cast<size_t>(block);
    tensor.coded->Decode(0, elements, DType::kFloat32, values.data(), bounds.data());
    tensor.coded->Decode(count - block, elements, DType::kFloat32, values.data(), bounds.data());
    for (const io::CodedTensor::Reading& reading : tensor.coded->OtherReadings()) {
      reading.tensor->Decode(0, elements, DType::kFloat32, values.data(), bounds.data());
    }
  }
  return 0;
}
