// The contract of a subcommand: tables of what it understands, and what it does. A new one has a
// source here, a function in commands.h and a line in the list of program.cpp; docs/commands/
// describes it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/flag.h"
#include "src/report/texts.h"

namespace msprobe::commands {

// For the shell. Every failure ends in kUsage or kFailed, never in kDone.
enum class ExitCode : int {
  kDone = 0,      // the work is done (whatever it found, unless --fail-on asked for more)
  kFindings = 1,  // done, and --fail-on's condition holds
  kUsage = 2,     // the command line or a config is wrong
  kFailed = 3,    // an input could not be read, or the result not be written
};

// General flags, those that were given, and properties of the terminal.
struct Context {
  std::string framework;  // -f/--framework: "pytorch", "mindspore" or empty
  bool quiet = false;     // --quiet: no progress, no summary, errors only
  bool verbose = false;   // --verbose: details of the work
  bool color = false;     // on stdout
  size_t width = 100;     // of stdout in characters
  bool has_edge = false;  // stdout is a terminal, lines end at `width`
  bool ascii = false;     // the locale has no UTF-8
  // The language of what is shown; files, JSON and CSV are the same in all.
  report::Language language = report::Language::kEnglish;
  // The flags that were given, by the names of their rows, and as they were typed; those of a
  // project file, which are `from_project`, with its line.
  std::map<std::string, std::string, std::less<>> typed;
  std::set<std::string, std::less<>> from_project;

  bool Given(std::string_view flag) const { return typed.find(flag) != typed.end(); }
  bool Typed(std::string_view flag) const {
    return Given(flag) && from_project.find(flag) == from_project.end();
  }
};

class Command;
// From the program down to one command, as it is typed.
using CommandPath = std::vector<Command*>;

// Commands under one heading of a group's help.
struct Topic {
  struct Entry {
    CommandPath path;                  // from below the group on
    std::string_view stands_for = {};  // of an alias: the command that it is
  };
  std::string title;
  std::vector<Entry> commands;
  bool is_of_aliases = false;  // help names them in one line
};

class Command {
 public:
  // `alias`: a second name; empty: none. `summary`: a line in the list of commands.
  Command(std::string_view name, std::string_view summary, std::string_view alias = {})
      : name_(name), summary_(summary), alias_(alias) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  std::string_view name() const { return name_; }
  std::string_view summary() const { return summary_; }
  std::string_view alias() const { return alias_; }

  // The rows point to members of the command. -h, -q and --verbose are not among them: every
  // command has those.
  virtual std::vector<Positional> positionals() { return {}; }
  virtual FlagTable flags() { return {}; }
  virtual std::vector<Example> examples() const { return {}; }
  virtual std::string notes() const { return {}; }  // paragraphs behind the examples

  void Add(std::unique_ptr<Command> subcommand) { below_.push_back(std::move(subcommand)); }
  std::vector<Command*> subcommands() const;
  virtual bool is_group() const { return false; }
  // How help lists the subcommands: each of them once, and perhaps some of those below them.
  virtual std::vector<Topic> topics();
  virtual bool is_program() const { return false; }  // shows flags that all commands have

  virtual Result<ExitCode> Run(const Context& context) = 0;

 private:
  const std::string_view name_;
  const std::string_view summary_;
  const std::string_view alias_;
  std::vector<std::unique_ptr<Command>> below_;
};

// Nothing but subcommands: shows its help when none is named, and is never run.
class CommandGroup : public Command {
 public:
  using Command::Command;
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context&) override { return ExitCode::kDone; }
};

// "msprobe monitor diff"
std::string TitleOf(const CommandPath& path);
// The same without the program, "monitor diff"
std::string NameBelowProgram(const CommandPath& path);
std::vector<std::string> SubcommandNames(const Command& command);
// Calls `see` with the path of the last command and of all below it, each before those below it.
void ForEachCommand(const CommandPath& path, const std::function<void(const CommandPath&)>& see);
// From `program` along names or aliases of subcommands, as far as they are known.
CommandPath FindCommand(Command& program, const std::vector<std::string>& names);

// The variables of -h, -q and --verbose.
struct GeneralValues {
  bool help = false;
  bool quiet = false;
  bool verbose = false;
  bool no_config = false;
  std::string language = {};  // "en", "zh"; empty: of the locale
};

// The rows of a command in the order of their groups, and the general ones.
std::vector<Flag> AllFlags(Command& command, GeneralValues& general);
// Without hidden ones, for help and completion.
std::vector<Flag> ShownFlags(Command& command);

// `msprobe COMMAND --help`, wrapped at `width` columns.
std::string HelpText(const CommandPath& path, size_t width,
                     report::Language language = report::Language::kEnglish);

}  // namespace msprobe::commands
