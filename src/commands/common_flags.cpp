#include "src/commands/common_flags.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace msprobe::commands {

std::vector<Flag> OwnFlags(Command& command) {
  std::vector<Flag> flags = command.flags();
  std::stable_sort(flags.begin(), flags.end(),
                   [](const Flag& a, const Flag& b) { return a.group < b.group; });
  return flags;
}

std::vector<Flag> AllFlags(Command& command, GeneralValues& general) {
  std::vector<Flag> flags = OwnFlags(command);
  flags.push_back({.name = "--quiet",
                   .letter = "-q",
                   .fills = &general.quiet,
                   .group = Group::kGeneral,
                   .help = "No progress, no summary: errors only"});
  flags.push_back({.name = "--verbose",
                   .fills = &general.verbose,
                   .group = Group::kGeneral,
                   .help = "Also log details of the work"});
  flags.push_back({.name = "--help",
                   .letter = "-h",
                   .fills = &general.help,
                   .group = Group::kGeneral,
                   .help = "Show this help"});
  return flags;
}

Flag ThreadsFlag(uint64_t& threads) {
  return {.name = "--threads",
          .type = "N",
          .fills = &threads,
          .bounds = {.least = 1, .most = 4096},
          .group = Group::kGeneral,
          .help = "Number of threads; results do not depend on it",
          .default_text = "all cores"};
}

Flag OutputFolderFlag(std::filesystem::path& folder, std::string help,
                      std::vector<std::string> aliases) {
  return {.name = "--output",
          .letter = "-o",
          .aliases = std::move(aliases),
          .type = "DIR",
          .fills = &folder,
          .arguments = kOneOrNone,
          .group = Group::kOutput,
          .help = std::move(help),
          .since = kPython811};
}

Flag ForceFlag() {
  return {.name = "--force",
          .group = Group::kOutput,
          .help = "Replace existing result files; without it the command fails"};
}

Flag FormatsFlag(std::vector<std::string>& formats, std::vector<std::string> known,
                 std::string default_text) {
  return {.name = "--format",
          .type = "LIST",
          .fills = &formats,
          .values = std::move(known),
          .separator = ',',
          .group = Group::kOutput,
          .help = "Comma-separated list of result files to write",
          .default_text = std::move(default_text)};
}

Status TakePath(const std::filesystem::path& argument, std::string_view name, std::string_view flag,
                std::filesystem::path& path) {
  if (argument.empty() == path.empty()) {
    return UsageError(argument.empty() ? fmt::format("{} is missing", name)
                                       : fmt::format("give {} or {}, not both: {} and {}", name,
                                                     flag, argument.string(), path.string()));
  }
  if (!argument.empty()) {
    path = argument;
  }
  return {};
}

}  // namespace msprobe::commands
