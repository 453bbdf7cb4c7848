// The configuration that a training printed into its log when it began: verl's dict, the argument
// dump of slime and Megatron, the Namespace of OpenRLHF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/value_tree.h"

namespace msprobe::analysis::config_check {

struct PrintedConfig {
  json::ValueTree tree;  // one object
  size_t line = 0;       // of the log, where it begins; 1-based
  std::vector<std::string> warnings;
};

// The last one in the log. Colours, a prefix that repeats on every line (Ray's actor, a time),
// marks of repeated lines and lines of somebody else in between do not matter. `file_name` is for
// errors: nothing of the kind printed, or the last one not complete (an earlier one is used when
// there is one, with a warning).
Result<PrintedConfig> FindPrintedConfig(std::string_view log, std::string_view file_name);

}  // namespace msprobe::analysis::config_check
