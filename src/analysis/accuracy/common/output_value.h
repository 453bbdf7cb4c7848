// What an operator returned, or the gradients of its arguments: tensors, numbers, texts, and lists
// of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::analysis::accuracy {

struct OutputValue {
  enum class Kind : uint8_t {
    kNone,
    kTensor,
    kScalar,  // bool, int, float, str
    kList,    // also a tuple
    kDict,
    kOther,
  };
  Kind kind = Kind::kNone;
  std::string type;                // of Python: "float", "list", "torch.Size"
  TensorView tensor;               // borrowed
  std::string text;                // of a scalar: equal texts of one type are equal values
  std::vector<OutputValue> items;  // of lists and dicts
  std::vector<std::string> keys;   // of dicts
};

}  // namespace msprobe::analysis::accuracy
