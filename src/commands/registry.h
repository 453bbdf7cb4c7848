// The list of all subcommands.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

// New instances, in the order the help shows them.
std::vector<std::unique_ptr<Command>> MakeCommands();

}  // namespace msprobe::commands
