// Calls as a training sends them.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/online/frame.h"

namespace msprobe::test_support {

// A call with one float32 tensor of these values.
inline online::Call CallOf(std::string name, const std::vector<float>& values, int64_t rank = 0,
                           int64_t step = 0) {
  auto memory = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
  std::memcpy(memory->data(), values.data(), memory->size());
  online::Call call;
  call.rank = rank;
  call.step = step;
  call.record = "{\"input_args\":[],\"input_kwargs\":{},\"output\":[]}";
  call.tensors.push_back({name + ".forward.input.0.pt",
                          DType::kFloat32,
                          {static_cast<int64_t>(values.size())},
                          {memory->data(), memory->size()}});
  call.name = std::move(name);
  call.memory = std::move(memory);
  return call;
}

inline std::vector<float> ValuesOf(const online::Call& call) {
  std::vector<float> values(call.tensors.at(0).bytes.size() / sizeof(float));
  std::memcpy(values.data(), call.tensors[0].bytes.data(), call.tensors[0].bytes.size());
  return values;
}

}  // namespace msprobe::test_support
