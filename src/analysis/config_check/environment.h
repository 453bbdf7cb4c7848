// Inside of the room: the environment of this process, as it was started.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msprobe::analysis::config_check::internal {

// In the order of the process, each name once.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment ThisEnvironment();
// Of entries "NAME=value"; what has no name or no "=" is left out, of a repeated name the first one
// counts, as for Python.
Environment ParseEnvironment(const char* const* entries);

// Empty when there is no such variable.
std::string ValueOf(const Environment& environment, std::string_view name);

struct EnvironmentJson {
  std::string text;   // the pack's member "env"
  size_t masked = 0;  // variables with a secret
};
EnvironmentJson WriteEnvironment(const Environment& environment);

}  // namespace msprobe::analysis::config_check::internal
