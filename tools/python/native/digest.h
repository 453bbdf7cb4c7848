// Digests of weights (include/msprobe/digest.h) for msprobe.weights.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

PyMethodDef* DigestMethods();

}  // namespace msprobe::python
