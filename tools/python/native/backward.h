// The hook on an autograd node that records gradients of one call.
#pragma once

#include <string>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Once, when the extension is loaded; false with a Python error.
bool MakeBackwardHookType();

// A callable (gradients of the node's inputs, gradients of its outputs) -> None that records both
// under `name`, unless the step in which it was made is over.
PyObject* MakeBackwardHook(std::string name);

// Records gradients under `name`, which was entered before: `input` flowed in, `output` was
// computed.
void RecordGradients(const std::string& name, PyObject* input, PyObject* output);

}  // namespace msprobe::python
