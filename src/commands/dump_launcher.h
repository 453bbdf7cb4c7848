// Runs a program with the capture or the monitor of msprobe in every Python process that it becomes
// or starts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/answer.h"
#include "src/commands/launch_trace.h"

namespace msprobe::commands {

struct LaunchOptions {
  std::vector<std::string> program;  // looked up in PATH; with its arguments
  // MSPROBE_<purpose>_CONFIG, _OVERRIDES and _FRAMEWORK tell the program's processes what to do.
  std::string_view purpose = "DUMP";
  std::filesystem::path config_file;  // empty: defaults
  std::string overrides_json;         // empty: none
  std::string_view framework;
  // Where the processes will write: a warning when this one cannot.
  std::filesystem::path output_folder;
  std::vector<std::pair<std::string, std::string>> variables;  // further ones
  bool quiet = false;             // errors only, in the program's processes too
  bool output_to_stderr = false;  // its standard output is joined to that of errors
};

struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: ended by it
  LaunchProgress progress = LaunchProgress::kUnknown;
  std::vector<std::string> reasons;  // what kept its processes from capturing, as they said
};

// Waits for the program's end. Signals that ask this process to end are passed on to the program.
Result<ProgramEnd> RunWithCapture(const LaunchOptions& options);

// Ends this process as the program ended, so that a shell sees the same.
[[noreturn]] void EndBySignal(int signal);

// For a command whose answer is that the program has ended, `command` by name: warns where no model
// was met (`nothing`, e.g. "nothing was watched"), gives the answer as --json where that is wanted,
// and ends as the program ended. `made`: what it made, if that is known; printed to stderr. With
// --json the verdict is how the program ended.
Result<ExitCode> TellEnd(const ProgramEnd& end, std::string_view command, std::string_view nothing,
                         std::string_view framework, const AnswerFlags& answer,
                         const Context& context, report::Document made = {});

}  // namespace msprobe::commands
