// The numbers of the C interface and of this extension, by name, for the Python side.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// False with a Python error.
bool AddConstants(PyObject* module);

}  // namespace msprobe::python
