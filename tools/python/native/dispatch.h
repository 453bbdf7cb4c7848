// Results of operators on a device and on the CPU, for online_dispatch.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

PyMethodDef* DispatchMethods();

// Adds AGREEMENT_..., the reasons of msprobe/dispatch.h.
bool AddDispatchConstants(PyObject* module);

}  // namespace msprobe::python
