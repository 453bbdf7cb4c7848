// The hyperparameters that a Python script states as literals, read without running anything.
#pragma once

#include <string_view>

#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check::internal {

// For every assignment of a literal at the top of the file (LR = 1e-3) its name, and for every
// add_argument("--lr", default=1e-3) "lr (default)". Names in capitals or not, anything that is
// computed is left out: only the running program knows it.
Parameters ReadPythonScript(std::string_view text);

}  // namespace msprobe::analysis::config_check::internal
