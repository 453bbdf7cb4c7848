// A tensor of the C interface on its way into a monitor.
#pragma once

#include <span>
#include <string_view>

#include "msprobe/capture.h"
#include "msprobe/status.h"

#include "src/capture/engine.h"
#include "src/monitor/measure.h"

namespace msprobe::capture {

struct MeasuredTensor {
  monitor::TensorNumbers numbers;
  std::span<const int64_t> shape;  // of the caller
  std::string_view dtype_text;     // of the caller
};

// Statistics of the tensor before this returns; of a device, behind a copy. `tensor` null: not a
// tensor. What has no values (meta, sparse, foreign dtypes) keeps its dtype and shape.
Status MeasureTensor(const msprobe_tensor* tensor, const monitor::MeasureRules& rules,
                     LazyDeviceCopies& device_copies, MeasuredTensor& out);

// The elements of a host tensor; an error when there are none to see.
Result<TensorView> HostView(const msprobe_tensor* tensor);

}  // namespace msprobe::capture
