// Completion for shells: scripts made from the tables, which need no run of the program while
// somebody types.
#pragma once

#include <string>

#include "src/commands/command.h"

namespace msprobe::commands {

// Scripts that complete commands, flags, the values of flags, files and folders.
std::string BashCompletion(Command& program);
std::string ZshCompletion(Command& program);
std::string FishCompletion(Command& program);

}  // namespace msprobe::commands
