// Call stacks without reading source: code objects and positions, registered once per distinct
// stack.
#pragma once

#include <cstdint>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Gives the stack of the running Python code to the engine under `name`.
void RecordStack(std::string_view name);

// Forgets the numbers of registered stacks: they hold for one step.
void ForgetStacks();

}  // namespace msprobe::python
