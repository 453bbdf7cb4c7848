// The contract of a subcommand. To add one: write <name>_command.{h,cpp} beside this file, add a
// line to the table in registry.cpp and the sources to CMakeLists.txt, describe it in
// docs/<name>.md.
#pragma once

#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}

namespace msprobe::commands {

// What the shell sees. Every failure ends in kUsage or kFailed, never in kDone.
enum class ExitCode : int {
  kDone = 0,      // the work is done (whatever it found, unless --fail-on asked for more)
  kFindings = 1,  // done, and --fail-on's condition holds
  kUsage = 2,     // the command line or a config is wrong
  kFailed = 3,    // an input could not be read, or the result not be written
};

// What stands before the subcommand, and what the terminal is like.
struct Context {
  std::string framework;  // -f/--framework: "pytorch", "mindspore" or empty
  bool quiet = false;     // --quiet: no progress, no summary, errors only
  bool color = false;     // on stdout
  size_t width = 100;     // of stdout in characters
  bool has_edge = false;  // stdout is a terminal, lines end at `width`
  bool ascii = false;     // the locale has no UTF-8
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // one line in `msprobe --help`
  virtual void Configure(CLI::App& app) = 0;     // flags, positional arguments, help text
  virtual Result<ExitCode> Run(const Context& context) = 0;
};

}  // namespace msprobe::commands
