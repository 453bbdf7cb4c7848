// What the tables of a command say, in the forms that people and programs read.
#pragma once

#include <string>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

// `msprobe COMMAND --help`, wrapped at `width` columns.
std::string HelpText(const CommandPath& path, size_t width);

// A page for man(1), in roff: section 1, named msprobe-monitor-diff for `msprobe monitor diff`.
std::string ManPage(const CommandPath& path);
// "msprobe-monitor-diff"
std::string ManPageName(const CommandPath& path);

// The tables of flags for docs/, in Markdown: one row per flag, a line of headings per group.
std::string MarkdownTables(const CommandPath& path);

// All that the tables of the command and those below it hold, as one JSON object.
std::string TablesJson(const CommandPath& path);

// Shared by the forms.
// "msprobe compare [FLAGS] [NPU_PATH] [BENCH_PATH]"
std::string UsageLine(const CommandPath& path);
// "-o, --output DIR"
std::string FlagHeading(const Flag& flag);
// `help` with the allowed values behind its first clause: "Output format: table or csv; csv: ...".
std::string WithValues(const std::string& help, const std::vector<std::string>& values);
// The help of a row with what else there is to know: values, default, further names.
std::string FlagExplanation(const Flag& flag);
std::string PositionalExplanation(const Positional& positional);
// Aliases that are not just another spelling of the name with dashes or underscores.
std::vector<std::string> FurtherNames(const Flag& flag);
inline constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 findings (with --fail-on), 2 wrong usage, 3 unreadable input or failed "
    "output.";
inline constexpr std::string_view kSpellingNote =
    "Dashes and underscores within flags are interchangeable: --output_name is --output-name.";

}  // namespace msprobe::commands
