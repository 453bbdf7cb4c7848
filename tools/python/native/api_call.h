// The callable that stands in for a framework's function while its calls are recorded.
#pragma once

#include <string>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Api(original, prefix, name, asynchronous, async_position): what is called runs `original`;
// recorded as "{prefix}.{name}.{n}.forward". `asynchronous`: 0 a plain function, 1 a collective
// (its output is its arguments), 2 one that always returns a handle, 3 one whose output is its
// result, which may hold a handle. `async_position`: where async_op stands among the positional
// arguments, or -1. Null with a Python error.
PyObject* MakeApiType();

// Records the output of a collective, once its handle has been waited for.
void RecordLaterOutput(const std::string& name, PyObject* args, PyObject* kwargs);

}  // namespace msprobe::python
