// One call of an operator on its way from a training to a checker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

namespace msprobe::online {

struct CallTensor {
  std::string name;  // as "data_name" of the record tells it
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;  // row-major, little-endian; borrowed
};

struct Call {
  int64_t rank = 0;
  int64_t step = 0;
  std::string name;    // "Functional.linear.0"
  std::string record;  // JSON: input_args, input_kwargs and output as in dump.json
  std::vector<CallTensor> tensors;
  std::shared_ptr<const void> memory;  // what the tensors borrow from

  uint64_t tensor_bytes() const {
    uint64_t bytes = 0;
    for (const CallTensor& tensor : tensors) {
      bytes += tensor.bytes.size();
    }
    return bytes;
  }
};

}  // namespace msprobe::online
