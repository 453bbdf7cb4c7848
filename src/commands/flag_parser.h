// From arguments to filled variables, by the tables of the commands. The only file that knows
// CLI11.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/command.h"

namespace msprobe::commands {

struct ParsedLine {
  CommandPath path;  // the program, and the commands that were named, as far as they are known
  // The flags that were given: name of the row to what was typed.
  std::map<std::string, std::string, std::less<>> typed;
  std::set<std::string, std::less<>> from_project;  // the names of those that .msprobe.toml gave
  std::string project_remark;                       // what it gave, in a line; may be empty
  std::string project_language;                     // "zh", if it gave one; empty: it did not
  GeneralValues general;
  // The mistake in the line. Nothing but `path` and `general.help` counts then.
  Status status;
  // Set for a line that is understood otherwise: a path is missing, or given twice, as an argument
  // and by a flag.
  Status paths;
};

class ProjectFile;
using FindProjectFile = std::function<Result<std::optional<ProjectFile>>()>;

// Fills what the rows of the commands on the line point to. `arguments` are without the program's
// own name. `find_project`, where given, is asked for what the line leaves open, unless it says
// --no-config.
ParsedLine ParseArguments(Command& program, const std::vector<std::string>& arguments,
                          const FindProjectFile& find_project = {});

}  // namespace msprobe::commands
