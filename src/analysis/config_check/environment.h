// Inside of the room: the environment of this process, as it was started.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/json/config.h"

namespace msprobe::analysis::config_check::internal {

// In the order of the process, each name once.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment ThisEnvironment();
// Of entries "NAME=value"; what has no name or no "=" is left out, of a repeated name the first one
// counts, as for Python.
Environment ParseEnvironment(const char* const* entries);

// A variable that launch scripts set for their training.
struct ScriptVariable {
  std::string name;
  json::ConfigValue value;  // a text, or what OneOf() makes of several
  std::string origin;       // "train.sh line 3"
};

// Empty when there is no such variable.
std::string ValueOf(const Environment& environment, std::string_view name);

struct EnvironmentJson {
  std::string text;   // the pack's member "env"
  size_t masked = 0;  // variables with a secret
};
// `of_scripts`: what launch scripts set; it takes the place of what this process has.
EnvironmentJson WriteEnvironment(const Environment& environment,
                                 const std::vector<ScriptVariable>& of_scripts = {});

}  // namespace msprobe::analysis::config_check::internal
