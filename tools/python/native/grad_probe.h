// The task grad_probe: gradients in, files out.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

PyMethodDef* GradProbeMethods();

}  // namespace msprobe::python
