#include "src/commands/common_flags.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace msprobe::commands {

std::vector<Flag> AllFlags(Command& command, GeneralValues& general) {
  std::vector<Flag> flags = RowsOf(command.flags());
  flags.push_back(Switch("--quiet -q", &general.quiet, "No progress, no summary: errors only",
                         Group::kGeneral));
  flags.push_back(
      Switch("--verbose", &general.verbose, "Also log details of the work", Group::kGeneral));
  flags.push_back(Switch("--help -h", &general.help, "Show this help", Group::kGeneral));
  return flags;
}

Flag ThreadsFlag(uint64_t& threads) {
  return Number("--threads", "N", &threads, "Number of threads; results do not depend on it",
                Between(1, 4096), Default{"all cores"}, Group::kGeneral);
}

Flag OutputFolderFlag(std::filesystem::path& folder, std::string help,
                      std::vector<std::string> aliases) {
  Flag flag =
      Path("--output -o", "DIR", &folder, std::move(help), kOneOrNone, kPython811, Group::kOutput);
  flag.aliases = std::move(aliases);
  return flag;
}

Flag ForceFlag() {
  return Switch("--force", nullptr, "Replace existing result files; without it the command fails",
                Group::kOutput);
}

Flag FormatsFlag(std::vector<std::string>& formats, std::vector<std::string> known,
                 std::string default_text) {
  return Choice("--format", "LIST", &formats, std::move(known),
                "Comma-separated list of result files to write", kSeparatedByCommas,
                Default{std::move(default_text)}, Group::kOutput);
}

}  // namespace msprobe::commands
