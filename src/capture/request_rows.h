// Which rows of a flattened batch belong to which request of a service, and the part of a tensor
// that a capture is about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/capture/settings.h"

namespace msprobe::capture {

struct TensorDescription;

struct RequestRows {
  std::string id;
  int64_t begin = 0;
  int64_t end = 0;
};

// The part that belongs to the request, of tensors with one row per token of the batch; nullopt
// when it is not in the batch.
std::optional<TensorSlice> RowsOf(const std::vector<RequestRows>& batch, std::string_view id);

// Narrows shape and address to the parts asked for. Of several for a dimension, the last one that
// fits counts; dimensions that a tensor does not have are left aside. Needs a dtype to move the
// address: tensors without one keep their shape.
void TakeSlices(const std::vector<TensorSlice>& slices, TensorDescription& tensor);

}  // namespace msprobe::capture
