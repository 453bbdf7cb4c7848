// Where the Python package that came with this program lies.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

namespace msprobe::commands {

// The folder that holds the package msprobe: MSPROBE_PYTHON_PATH if that is set, else beside this
// program. It need not be on Python's path, and other packages may lie beside it: an installation
// with pip shares it with everything else that was installed. Of those only one of this program's
// version counts.
Result<std::filesystem::path> FindPythonFolder();

}  // namespace msprobe::commands
