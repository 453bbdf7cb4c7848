// Runs a program with the capture or the monitor of msprobe in every Python process that it becomes
// or starts: where the Python package is, how far the processes came, and how the program ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/answer.h"

namespace msprobe::commands {

enum class LaunchProgress : uint8_t {
  kUnknown,   // no file could be made, or it was not readable
  kNoPython,  // no Python process loaded the starter
  kPython,    // one did, but none imported the framework
  kFramework,
};

// Why nothing was captured, for the user; empty when nothing is known. `framework` as the flag -f
// spells it; `reasons`: what processes said themselves.
std::string WhyNothing(LaunchProgress progress, std::string_view framework,
                       const std::vector<std::string>& reasons = {});

// `name`, or with a number behind it where there is something of that name: without --output every
// run gets a folder of its own, next to the others.
std::filesystem::path UnusedFolder(std::string_view name);

// Tells a file from its later replacement or growth; of no file: as when it is made.
struct FileStamp {
  uint64_t inode = 0;
  int64_t modified_nanoseconds = 0;
  uint64_t size_bytes = 0;
  bool operator==(const FileStamp& other) const = default;
};
FileStamp StampOf(const std::filesystem::path& file);

// The folder that holds the package msprobe, as an absolute path: MSPROBE_PYTHON_PATH if that is
// set, else beside this program. It need not be on Python's path, and other packages may lie beside
// it: an installation with pip shares it with everything else that was installed. Of those only one
// of this program's version counts.
Result<std::filesystem::path> FindPythonFolder();

// PYTHONPATH for a program that is to find the package in `folder`: not the folder itself, in which
// packages of another Python may lie, but that of a sitecustomize.py which finds this one. An error
// when there is a colon in the folder's path, which separates the folders of PYTHONPATH.
Result<std::string> PathThatFinds(const std::filesystem::path& folder);

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

// With the part of the options that every command takes from its own command line.
LaunchOptions LaunchOf(const std::vector<std::string>& program, std::string_view framework,
                       const AnswerFlags& answer, const Context& context);

// Waits for the program's end. Signals that ask this process to end are passed on to the program.
Result<ProgramEnd> RunWithCapture(const LaunchOptions& options);

// Ends this process as the program ended, so that a shell sees the same.
[[noreturn]] void EndBySignal(int signal);

// Emits the report to stderr, and the page where there is one, and ends this process by the signal
// that ended the program, if any.
Result<ExitCode> EmitAndEnd(report::Document document, const AnswerFlags& answer,
                            const Context& context, const ProgramEnd& end,
                            std::optional<int> exit_code, const std::filesystem::path& page = {});

// For a command whose answer is that the program has ended, `command` by name: warns where no model
// was met (`nothing`, e.g. "nothing was watched"), gives the answer as --json where that is wanted,
// and ends as the program ended. `made`: what it made, if that is known; printed to stderr. With
// --json the verdict is how the program ended.
Result<ExitCode> ReportEnd(const ProgramEnd& end, std::string_view command,
                           std::string_view nothing, std::string_view framework,
                           const AnswerFlags& answer, const Context& context,
                           report::Document made = {});

}  // namespace msprobe::commands
