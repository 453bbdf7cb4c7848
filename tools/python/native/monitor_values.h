// The methods of msprobe._native.Monitor that put values into a step and give them back.
#pragma once

#include <vector>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

const std::vector<PyMethodDef>& MonitorValueMethods();

}  // namespace msprobe::python
