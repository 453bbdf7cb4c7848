// The contract of a subcommand: tables that say what it understands, and what it does. A new one is
// a source of its own beside this file, with a function in commands.h and a line in the list of
// program.cpp; docs/commands/ describes it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/flag.h"

namespace msprobe::commands {

// What the shell sees. Every failure ends in kUsage or kFailed, never in kDone.
enum class ExitCode : int {
  kDone = 0,      // the work is done (whatever it found, unless --fail-on asked for more)
  kFindings = 1,  // done, and --fail-on's condition holds
  kUsage = 2,     // the command line or a config is wrong
  kFailed = 3,    // an input could not be read, or the result not be written
};

// What stands before the subcommand, what is the same in all of them, and what the terminal is
// like.
struct Context {
  std::string framework;  // -f/--framework: "pytorch", "mindspore" or empty
  bool quiet = false;     // --quiet: no progress, no summary, errors only
  bool verbose = false;   // --verbose: details of the work
  bool color = false;     // on stdout
  size_t width = 100;     // of stdout in characters
  bool has_edge = false;  // stdout is a terminal, lines end at `width`
  bool ascii = false;     // the locale has no UTF-8
  // The flags that were given, by the names of their rows, and as they were typed.
  std::map<std::string, std::string, std::less<>> typed;

  bool Given(std::string_view flag) const { return typed.find(flag) != typed.end(); }
};

class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view alias() const { return {}; }  // a second name; empty: none
  virtual std::string_view summary() const = 0;          // a line in the list of commands

  // The rows point to members of the command. -h, -q and --verbose are not among them: every
  // command has those.
  virtual FlagTable flags() { return {}; }
  virtual std::vector<Positional> positionals() { return {}; }
  virtual std::vector<Example> examples() const { return {}; }
  virtual std::string notes() const { return {}; }  // paragraphs behind the examples

  // Owned by the command. One that is nothing but a group of them shows its help when none is
  // named, and is never run.
  virtual std::vector<Command*> subcommands() const { return {}; }
  virtual bool is_group() const { return false; }

  virtual Result<ExitCode> Run(const Context& context) = 0;
};

// From the program down to one command, as it is typed.
using CommandPath = std::vector<Command*>;
// "msprobe monitor diff"
std::string TitleOf(const CommandPath& path);
// From `program` along names or aliases of subcommands, as far as they are known.
CommandPath FindCommand(Command& program, const std::vector<std::string>& names);

}  // namespace msprobe::commands
