// Inside of the room: the hyperparameters that a launch script hands to its training, read without
// running anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check::internal {

struct LaunchScript {
  Parameters parameters;              // texts, or true for an option without value
  std::vector<std::string> warnings;  // "line 3: ..."
};

// On a plain script (assignments and commands only) the result holds whatever the Python tool finds
// there, with the same texts.
Result<LaunchScript> ReadLaunchScript(std::string_view text);

// What the Python tool finds, with every quirk.
Parameters ReadLaunchScriptAsPythonTool(std::string_view text);

}  // namespace msprobe::analysis::config_check::internal
