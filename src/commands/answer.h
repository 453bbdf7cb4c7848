// How a command that answers something gives its answer: the group of flags that all of them share,
// and the one way from a document to the screen, to JSON, to a JUnit report and to the exit code.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/commands/command.h"
#include "src/report/document.h"
#include "src/report/screen.h"

namespace msprobe::commands {

// An error as log lines: the message and its hint.
void LogStatus(const Status& status);

// Onto the standard output. An error when the text cannot be written: a full disk behind a pipe,
// say.
Status Print(std::string_view text);

// The same of lines that hold what stood in files, such as csv. On a terminal, which such text must
// not steer, everything that is not printable becomes "?"; files and pipes get the bytes as they
// are.
Status PrintUntrusted(std::string_view text);

struct AnswerFlags {
  bool json = false;                 // the answer as one JSON object, nothing else on stdout
  std::filesystem::path junit_file;  // empty: none
  std::vector<std::string> fail_on;
  std::string annotations;  // "github": lines that CI systems show beside the code
  std::string color = "auto";
  std::string links = "auto";
  bool open = false;  // the page in a browser
  size_t width = 0;   // 0: the terminal's
  // For commands whose work several processes may share (base/shared_run.h).
  std::string share;  // "2/8"; empty: what a launcher says
  int64_t wait_s = 1800;

  report::Gate gate() const { return report::Gate(fail_on); }
};

// The rows of --json, --color, --width, and of commands that judge --fail-on and --junit.
// `levels` are the words of --fail-on; none: the command does not judge. Where `conditions` is not
// empty, --fail-on takes texts of that form as well; the command checks them.
std::vector<Flag> AnswerRows(AnswerFlags& answer, std::span<const report::GateLevel> levels = {},
                             std::string_view conditions = "");

// --share and --wait, of commands whose work several processes may share. The command line sees to
// both; a process that hands its share to the one that answers ends without an answer.
std::vector<Flag> ShareRows(AnswerFlags& answer);
inline constexpr std::string_view kShareFlag = "--share";
inline constexpr std::string_view kWaitFlag = "--wait";

// --open, of commands that can write a page: it asks for the page as well.
Flag OpenFlag(AnswerFlags& answer);

// Results below `folder` are not named by any answer: the folder is removed in the end.
void HideFilesBelow(std::filesystem::path folder);

// Answers name the standard input "-", not the file that holds a copy of it.
void NameStandardInput(const std::filesystem::path& copy);

// The annotation of a command that ended with kFailed, on stderr.
void AnnotateFailure(std::string_view command, const Status& failure);

// The JUnit report of a command that ended with kFailed, in place of one it has written: one error.
Status WriteJunitOfFailure(const std::filesystem::path& path, std::string_view command,
                           const Status& failure);

// "--fail-on LEVEL gives exit code 1 when ...": a paragraph for a command's --help.
std::string FailOnHelp(std::span<const report::GateLevel> levels);

// The screen that the flags and the terminal make.
report::ScreenOptions ScreenOf(const AnswerFlags& flags, const Context& context);

// The exit code of the process; also for files that hold it.
ExitCode ExitCodeOf(const report::Document& document, const AnswerFlags& flags);

// Special forms of a command's answer.
struct OwnForms {
  // Text that it has always printed, and that scripts count on:
  std::optional<std::string> instead;  // of the answer: what --format json or md asks for
  std::string behind;                  // the answer, where stdout is a pipe

  std::filesystem::path page;    // for browsers; empty: none
  bool despite_quiet = false;    // the answer is what the command is for
  bool to_stderr = false;        // the standard output belongs to a script
  std::filesystem::path file;    // the answer for people goes there; empty: none
  std::optional<int> exit_code;  // a script's, instead of that of the answer
};

// Whether the page may be written, asked before the work. One rule names pages: as the tables of
// the run beside them, with their stem and time; where the tables have names of their own, as the
// command.
Status CheckPage(const std::filesystem::path& page);

// Writes the page and the JUnit report, shows the answer unless --quiet forbids it, and logs the
// warnings; a form that was asked for, such as --json, is shown all the same.
Result<ExitCode> EmitReport(report::Document document, const AnswerFlags& flags,
                            const Context& context, const OwnForms& own = {});

}  // namespace msprobe::commands
