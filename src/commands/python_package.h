// Where the Python package that came with this program lies.
#pragma once

#include <filesystem>
#include <string>

#include "msprobe/status.h"

namespace msprobe::commands {

// The folder that holds the package msprobe, as an absolute path: MSPROBE_PYTHON_PATH if that is
// set, else beside this program. It need not be on Python's path, and other packages may lie beside
// it: an installation with pip shares it with everything else that was installed. Of those only one
// of this program's version counts.
Result<std::filesystem::path> FindPythonFolder();

// PYTHONPATH for a program that is to find the package in `folder`: not the folder itself, in which
// packages of another Python may lie, but that of a sitecustomize.py which finds this one. An error
// when there is a colon in the folder's path, which separates the folders of PYTHONPATH.
Result<std::string> PathThatFinds(const std::filesystem::path& folder);

}  // namespace msprobe::commands
