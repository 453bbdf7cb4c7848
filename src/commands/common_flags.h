// Rows that mean the same in every command that has them, and are therefore spelled once.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/command.h"

namespace msprobe::commands {

// What -h, -q and --verbose fill.
struct GeneralValues {
  bool help = false;
  bool quiet = false;
  bool verbose = false;
};

// The rows of a command in the order of their groups, and the general ones.
std::vector<Flag> AllFlags(Command& command, GeneralValues& general);

// --threads N
Flag ThreadsFlag(uint64_t& threads);

// -o/--output DIR. `aliases` are what the Python tools call it.
Flag OutputFolderFlag(std::filesystem::path& folder, std::string help,
                      std::vector<std::string> aliases);

// --force: results take the place of files that exist. Without it nothing that exists is replaced
// (base/output_files.h), by any command. The command line sees to it.
Flag ForceFlag();

// --format a,b,c out of `known`.
Flag FormatsFlag(std::vector<std::string>& formats, std::vector<std::string> known,
                 std::string default_text);

}  // namespace msprobe::commands
