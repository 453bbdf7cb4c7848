#include "src/commands/command.h"

#include <algorithm>

namespace msprobe::commands {

std::string TitleOf(const CommandPath& path) {
  std::string title;
  for (const Command* const command : path) {
    title += (title.empty() ? "" : " ") + std::string(command->name());
  }
  return title;
}

CommandPath FindCommand(Command& program, const std::vector<std::string>& names) {
  CommandPath path = {&program};
  for (const std::string& name : names) {
    const std::vector<Command*> below = path.back()->subcommands();
    const auto found = std::find_if(below.begin(), below.end(), [&](const Command* command) {
      return !name.empty() && (command->name() == name || command->alias() == name);
    });
    if (found == below.end()) {
      break;
    }
    path.push_back(*found);
  }
  return path;
}

}  // namespace msprobe::commands
