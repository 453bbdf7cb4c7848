// The callable that stands in for a framework's function: counts its calls, and hands those that
// are to be recorded to the recorder.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Api(original, prefix, name, asynchronous, async_position): what is called runs `original`;
// recorded as "{prefix}.{name}.{n}.forward". `asynchronous` and `async_position` as in recorder.h.
// Null with a Python error.
PyObject* MakeApiType();

// Whether calls of functions of this thread are recorded or made twice at this moment.
bool ApisAreWanted();

// A call of the Api.
PyObject* CallApi(PyObject* api, PyObject* args, PyObject* kwargs);

}  // namespace msprobe::python
