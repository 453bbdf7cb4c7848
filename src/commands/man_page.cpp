// Pages for man(1). Roff reads lines that begin with '.' or "'" as requests and '\' as an escape.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/help_text.h"

namespace msprobe::commands {
namespace {

std::string Escaped(std::string_view text) {
  std::string roff = base::ReplaceAll(text, "\\", "\\e");
  roff = base::ReplaceAll(roff, "-", "\\-");
  roff = base::ReplaceAll(roff, "\n.", "\n\\&.");
  roff = base::ReplaceAll(roff, "\n'", "\n\\&'");
  return roff.starts_with('.') || roff.starts_with('\'') ? "\\&" + roff : roff;
}

void AddManEntry(std::string& page, std::string_view heading, std::string_view explanation) {
  page += fmt::format(".TP\n.B {}\n{}\n", Escaped(heading), Escaped(explanation));
}

void AddManFlags(std::string& page, const std::vector<Flag>& flags) {
  page += ".SH OPTIONS\n";
  std::optional<Group> group;
  for (const Flag& flag : flags) {
    if (flag.hidden) {
      continue;
    }
    if (group != flag.group) {
      group = flag.group;
      page += fmt::format(".SS {}\n", Escaped(GroupTitle(flag.group)));
    }
    AddManEntry(page, FlagHeading(flag), FlagExplanation(flag));
  }
  page += ".PP\n" + Escaped(kSpellingNote) + "\n";
}

void AddNotes(std::string& page, const std::string& notes) {
  if (notes.empty()) {
    return;
  }
  page += ".SH NOTES\n";
  bool laid_out = false;  // lists and tables keep their lines
  for (const std::string_view line : base::Split(base::Trim(notes), '\n')) {
    const bool indented = line.starts_with(' ');
    if (indented != laid_out && !line.empty()) {
      page += indented ? ".nf\n" : ".fi\n";
      laid_out = indented;
    }
    page += line.empty() ? std::string(".PP\n") : Escaped(line) + "\n";
  }
  page += laid_out ? ".fi\n" : "";
}

// "monitor_diff": its page in docs/commands/.
std::string DocumentName(const CommandPath& path) {
  std::string name;
  for (size_t i = 1; i < path.size(); ++i) {
    name += (i > 1 ? "_" : "") + std::string(path[i]->name());
  }
  return name;
}

void AddOtherPages(std::string& page, const CommandPath& path) {
  std::vector<std::string> names;
  if (path.size() > 1) {
    names.push_back(ManPageName({path.begin(), path.end() - 1}));
  }
  for (Command* const below : path.back()->subcommands()) {
    CommandPath longer = path;
    longer.push_back(below);
    names.push_back(ManPageName(longer));
  }
  page += ".SH SEE ALSO\n";
  for (size_t i = 0; i < names.size(); ++i) {
    page += fmt::format(".BR {} (1){}\n", Escaped(names[i]), i + 1 < names.size() ? "," : "");
  }
  if (path.size() > 1) {
    page += fmt::format(".PP\nExamples and results: docs/commands/{}.md in share/doc/msprobe.\n",
                        DocumentName(path));
  }
}

}  // namespace

std::string ManPageName(const CommandPath& path) {
  return base::ReplaceAll(TitleOf(path), " ", "-");
}

std::string ManPage(const CommandPath& path) {
  Command& command = *path.back();
  const std::string name = ManPageName(path);
  // Without a date: the same program gives the same page.
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"msprobe {}\" \"msprobe\"\n",
                                 base::ReplaceAll(name, "-", "\\-"), MSPROBE_VERSION);
  const std::string_view summary = command.summary();
  page += fmt::format(".SH NAME\n{} \\- {}\n", Escaped(name),
                      Escaped(summary.substr(0, summary.find('\n'))));
  page += fmt::format(".SH SYNOPSIS\n.B {}\n", Escaped(UsageLine(path)));
  if (const std::vector<Positional> positionals = command.positionals(); !positionals.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const Positional& positional : positionals) {
      AddManEntry(page, positional.name, PositionalExplanation(positional));
    }
  }
  if (const std::vector<Command*> below = command.subcommands(); !below.empty()) {
    page += ".SH COMMANDS\n";
    for (const Command* const subcommand : below) {
      AddManEntry(page, subcommand->name(), subcommand->summary());
    }
  }
  GeneralValues general;
  AddManFlags(page, AllFlags(command, general));
  if (const std::vector<Example> examples = command.examples(); !examples.empty()) {
    page += ".SH EXAMPLES\n";
    for (const Example& example : examples) {
      AddManEntry(page, example.command, example.meaning);
    }
  }
  AddNotes(page, command.notes());
  page += ".SH EXIT STATUS\n";
  page += Escaped(kExitCodes.substr(kExitCodes.find(':') + 2)) + "\n";
  AddOtherPages(page, path);
  return page;
}

}  // namespace msprobe::commands
