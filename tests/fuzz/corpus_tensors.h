// Tensor files beside the dump.json of a fuzzer's input.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/tensor_file.h"

namespace msprobe::fuzz {

// t0.npy, t1.npy, ...: what the dumps of the corpora name.
inline void WriteCorpusTensors(const std::filesystem::path& folder) {
  const std::vector<Shape> shapes = {{},     {1},    {4},       {2, 3},       {3, 4},    {0},
                                     {2, 0}, {1, 4}, {2, 3, 4}, {1, 2, 3, 4}, {4, 4, 4}, {8}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float> numbers(static_cast<size_t>(ElementCount(shapes[i])));
    for (size_t j = 0; j < numbers.size(); ++j) {
      numbers[j] = static_cast<float>(j % 5) - 1.5F;
    }
    TensorView view;
    view.dtype = DType::kFloat32;
    view.shape = shapes[i];
    view.strides = ContiguousStrides(shapes[i]);
    view.data = reinterpret_cast<const std::byte*>(numbers.data());
    view.extent_bytes = numbers.size() * sizeof(float);
    if (!WriteNpyFile(folder / ("t" + std::to_string(i) + ".npy"), view).ok()) {
      std::abort();
    }
  }
}

}  // namespace msprobe::fuzz
