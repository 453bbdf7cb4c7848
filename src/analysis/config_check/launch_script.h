// The hyperparameters that a launch script hands to its training, read without
// running anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/shell_run.h"

namespace msprobe::analysis::config_check::internal {

// A variable of the training's environment that the script sets.
struct LaunchVariable {
  std::string name;
  json::Json value;      // a text, or what OneOf() makes of several
  bool is_known = true;  // false: it is made of what only a running shell knows
  int line = 0;
};

struct LaunchScript {
  // Texts, or true for an option without value; what OneOf() makes of several where a branch cannot
  // be decided or several trainings are started.
  Parameters parameters;
  std::vector<LaunchVariable> environment;
  std::vector<std::string> read_scripts;  // names of those that it runs or sources
  std::vector<std::string> warnings;      // "line 3: ..."
};

// `lookup` knows the scripts that this one may run or source.
Result<LaunchScript> ReadLaunchScript(
    std::string_view text, const ScriptLookup& lookup = [](std::string_view) { return nullptr; });

// What the Python tool finds, with every quirk.
Parameters ReadLaunchScriptAsPythonTool(std::string_view text);

}  // namespace msprobe::analysis::config_check::internal
