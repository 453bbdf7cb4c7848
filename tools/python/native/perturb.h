// Changing tensors and comparing results, and calls of functions that somebody runs twice.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

PyMethodDef* PerturbMethods();

// Adds PERTURB_..., the modes and flags of msprobe/perturb.h.
bool AddPerturbConstants(PyObject* module);

}  // namespace msprobe::python
