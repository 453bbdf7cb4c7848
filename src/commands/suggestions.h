// Suggestions for words that are not known.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/command.h"

namespace msprobe::commands {

// "did you mean ...?" for a command that `path`'s last one does not have; otherwise the list of
// those that it has. Knows slips of the finger, words that others use for the same, and commands of
// the other groups.
std::string SuggestCommand(std::string_view word, const CommandPath& path);

// The same for a flag of a command; empty when nothing is near.
std::string SuggestFlag(std::string_view word, std::span<const Flag> flags);

// A word of a command line that can be copied: quoted where a shell would take it for something
// else. A mask of secrets (base/secrets.h) is shown as it is.
std::string ShellWord(std::string_view word);

// The paths that a command was given to read: arguments, then flags.
std::vector<std::filesystem::path> GivenInputs(Command& command);

// For a command that failed with `message`: what one of the paths it was given holds, and the
// commands for that; empty where it is what the command takes, or is not known.
std::string SuggestForInput(const CommandPath& path, std::string_view message);

// The failure of a command as it is reported: the first path that the command was to read and that
// is not there, arguments before flags, in the same words for all commands; otherwise `failure`.
Status NameMissingInput(const CommandPath& path, Status failure);

}  // namespace msprobe::commands
