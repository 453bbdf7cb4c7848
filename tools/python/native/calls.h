// Module calls, single saves and gradients: the functions of the extension that record something.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Ends with an empty entry.
PyMethodDef* CallMethods();

}  // namespace msprobe::python
