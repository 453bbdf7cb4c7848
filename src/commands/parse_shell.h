// The commands of `msprobe parse`, one in a line.
#pragma once

#include "msprobe/status.h"

#include "src/commands/command.h"

namespace msprobe::commands {

// Until the input ends or somebody types `exit`. A command that fails is told and the next one is
// read; kFailed when one did.
Result<ExitCode> RunParseShell(const Context& context);

}  // namespace msprobe::commands
