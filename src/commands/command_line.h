// From argv to an exit code: parses, finds the command, runs it, and says what went wrong.
#pragma once

namespace msprobe::commands {

int RunCommandLine(int argc, char** argv);

}  // namespace msprobe::commands
