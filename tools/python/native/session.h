// Life cycle of the capture and settings of the hooks: the functions of the extension without
// records.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// Ends with an empty entry.
PyMethodDef* SessionMethods();

}  // namespace msprobe::python
