// Inside of the room: the Python that trainings here would use, asked where it looks for packages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/environment.h"

namespace msprobe::analysis::config_check::internal {

struct Interpreter {
  std::filesystem::path path;                      // as it calls itself
  std::string version;                             // "3.10.12"
  std::vector<std::filesystem::path> search_path;  // its sys.path, in order
};

// `wanted`: a path, or a name looked up in PATH. Empty: python3 or python in PATH, else the one
// of VIRTUAL_ENV or CONDA_PREFIX. kNotFound when there is none.
Result<std::filesystem::path> FindInterpreter(const std::string& wanted,
                                              const Environment& environment);

// Runs the interpreter for as long as it takes to print its sys.path; it imports nothing but what
// every start of it imports. Ended after `limit_seconds`.
Result<Interpreter> AskInterpreter(const std::filesystem::path& program, double limit_seconds);

}  // namespace msprobe::analysis::config_check::internal
