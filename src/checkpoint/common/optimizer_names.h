// Inside of the room: what in a checkpoint is not the model, told by name.
#pragma once

#include <string_view>

namespace msprobe::checkpoint {

// Whether the name (keys joined with '.') belongs to an optimizer's state or to bookkeeping rather
// than to the model.
bool IsOptimizerState(std::string_view name);

}  // namespace msprobe::checkpoint
