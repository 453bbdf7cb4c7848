// Groups of flags that mean the same in every command that has them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/command.h"

namespace msprobe::commands {

// --threads N
void AddThreadsFlag(CLI::App& app, size_t& threads);

// -o/--output_path, also bare, as the Python tool allows it.
void AddOutputFlag(CLI::App& app, std::filesystem::path& folder, const std::string& description);

// --force: results take the place of files that exist. Without it nothing that exists is replaced
// (base/output_rule.h), by any command.
void AddForceFlag(CLI::App& app);

// --format a,b,c out of `known`; the option's value is a list without repeats.
void AddFormatFlag(CLI::App& app, std::vector<std::string>& formats,
                   const std::vector<std::string>& known);

// Rewrites the multi-letter single-dash flags of the Python tool (-cm, -config, ...), which
// ordinary parsers read as bundles of single letters, into their long forms. Only arguments behind
// the subcommand's name are looked at.
std::vector<std::string> NormalizeLegacyFlags(std::vector<std::string> arguments);

}  // namespace msprobe::commands
