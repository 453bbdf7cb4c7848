// A tensor as the hooks describe it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/device/device.h"

namespace msprobe::capture {

struct TensorDescription {
  std::string_view type;        // "torch.Tensor"
  std::string_view dtype_text;  // as the framework spells it
  std::optional<DType> dtype;   // not known: described without values
  Shape shape;
  Shape strides;               // in elements; empty with a shape: row-major
  const void* data = nullptr;  // null: no values
  std::optional<bool> requires_grad;
  bool conjugated = false;
  bool negated = false;
  bool is_numpy = false;
  device::Kind device = device::Kind::kHost;
  int32_t device_index = 0;
  device::Stream stream = nullptr;
};

}  // namespace msprobe::capture
