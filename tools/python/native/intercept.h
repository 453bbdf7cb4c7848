// The callable that stands in for a framework's function: counts its calls, and hands those that
// are to be recorded to the recorder.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Api(original, prefix, name, asynchronous, async_position): what is called runs `original`;
// recorded as "{prefix}.{name}.{n}.forward". `asynchronous` and `async_position` as in recorder.h.
// Null with a Python error.
PyObject* MakeApiType();

}  // namespace msprobe::python
