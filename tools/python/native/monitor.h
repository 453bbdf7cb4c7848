// msprobe._native.Monitor: the training monitor of include/msprobe/monitor.h as a Python type.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// A new reference to the type, or null with a Python error. Once, when the extension is loaded.
PyObject* MakeMonitorType();

}  // namespace msprobe::python
