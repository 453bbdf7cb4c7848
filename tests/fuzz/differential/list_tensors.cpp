// What our readers make of files, for comparison with the readers of PyTorch, NumPy and
// safetensors: paths come in, one per line, and one line of JSON goes out for each: {"error":
// "..."} or {"tensors": {"a.0": ["float32", [2, 3], 1234]}, "unreadable": ["b"]}, with the CRC-32
// of the elements in order.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "msprobe/tensor_file.h"

#include "src/tensor/tensor_buffer.h"

namespace {

using msprobe::NamedTensor;
using msprobe::TensorFile;

uint32_t Checksum(const msprobe::TensorView& view) {
  constexpr int64_t kBlock = 4096;
  std::vector<std::byte> block(kBlock * 16);
  uLong crc = crc32(0, nullptr, 0);
  const int64_t count = view.element_count();
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t here = std::min(kBlock, count - at);
    msprobe::tensor::CopyElements(view, at, here, block.data());
    const size_t bytes = static_cast<size_t>(here) * msprobe::DTypeSize(view.dtype);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(bytes));
  }
  return static_cast<uint32_t>(crc);
}

nlohmann::json Describe(const std::string& path) {
  const msprobe::Result<TensorFile> file = TensorFile::Open(path);
  if (!file.ok()) {
    return {{"error", file.status().message()}};
  }
  nlohmann::json tensors = nlohmann::json::object();
  nlohmann::json unreadable = nlohmann::json::array();
  for (const NamedTensor& tensor : file->tensors()) {
    if (!tensor.status.ok()) {
      unreadable.push_back(tensor.name());
      continue;
    }
    const auto& shape = tensor.view.shape;
    tensors[tensor.name()] = {msprobe::DTypeName(tensor.view.dtype),
                              std::vector<int64_t>(shape.begin(), shape.end()),
                              Checksum(tensor.view)};
  }
  return {{"tensors", std::move(tensors)}, {"unreadable", std::move(unreadable)}};
}

}  // namespace

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    std::cout << Describe(path).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
              << std::endl;
  }
}
