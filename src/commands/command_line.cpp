// From argv to an exit code: parses, finds the command, runs it, and reports what went wrong.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/commands.h"
#include "src/commands/flag_parser.h"
#include "src/commands/project_file.h"
#include "src/commands/suggestions.h"

namespace msprobe::commands {
namespace {

constexpr size_t kDefaultWidth = 100;
constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfMemoryHint =
    "use fewer --threads; check ulimit -v and the memory limit of the container";

// Runs before everything else: libraries allocate before main().
[[gnu::constructor(101)]] void GuardStart() { base::InstallTerminateCleanup(); }

ExitCode ToExitCode(StatusCode code) {
  return code == StatusCode::kUsage ? ExitCode::kUsage : ExitCode::kFailed;
}

// COLUMNS, as other programs take it, then the terminal's width.
size_t TerminalWidth() {
  constexpr int64_t kLeast = 40;
  constexpr int64_t kMost = 1000;
  const char* const columns = std::getenv("COLUMNS");
  const std::optional<int64_t> chosen = columns == nullptr ? std::nullopt : base::ParseInt(columns);
  if (chosen && *chosen >= kLeast && *chosen <= kMost) {
    return static_cast<size_t>(*chosen);
  }
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast) {
    return size.ws_col;
  }
  return kDefaultWidth;
}

// As setlocale() would choose, without its side effects: the first of the three that is set counts.
bool LocaleHasUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      const std::string locale = base::AsciiLower(value);
      return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
  }
  return false;
}

ExitCode ReportUsageError(const ParsedLine& line) {
  LogStatus(line.status);
  base::LogHint(fmt::format("{} --help explains all flags", TitleOf(line.path)));
  return ExitCode::kUsage;
}

// The same commands of a program whose variables hold the defaults.
CommandPath Untouched(const CommandPath& path, Program& fresh) {
  std::vector<std::string> names;
  std::transform(path.begin() + 1, path.end(), std::back_inserter(names),
                 [](const Command* command) { return std::string(command->name()); });
  return FindCommand(fresh, names);
}

ExitCode PrintOrFail(const std::string& text) {
  return Print(text).ok() ? ExitCode::kDone : ExitCode::kFailed;
}

// The value of --junit; empty: none, or the command has no such flag.
std::filesystem::path JunitFile(Command& command) {
  for (const Flag& flag : RowsOf(command.flags())) {
    if (flag.name == "--junit") {
      return *std::get<std::filesystem::path*>(flag.fills);
    }
  }
  return {};
}

// Makes an exception of a library, most often that memory ran out, a failure like others. Memory of
// the command is free again when this returns.
Result<ExitCode> Caught(const std::function<Result<ExitCode>()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return IoError(kOutOfMemory).WithHint(kOutOfMemoryHint);
  } catch (const std::exception& error) {
    return IoError(fmt::format("unexpected: {}", error.what()));
  }
}

// A CI job finds a report of a run that failed, too.
ExitCode RunChosen(const CommandPath& path, const Status& paths, const Context& context) {
  Command& command = *path.back();
  const std::filesystem::path junit_file = JunitFile(command);
  const Status junit = junit_file.empty() ? OkStatus() : base::CheckOutputFile(junit_file);
  const std::string title = NameBelowProgram(path);
  const Result<ExitCode> outcome = Caught([&]() -> Result<ExitCode> {
    MSP_RETURN_IF_ERROR(paths);
    MSP_RETURN_IF_ERROR(junit);
    return command.Run(context);
  });
  // Damage to the inputs that the command did not notice may be the cause of its failure.
  const std::array<Status, 2> inputs = {base::CheckMappedFiles(), base::CheckUnseenPaths()};
  Status failure;  // the first that is reported
  if (!outcome.ok()) {
    LogStatus(outcome.status());
    if (const std::string hint = SuggestForInput(path, outcome.status().message()); !hint.empty()) {
      base::LogHint(hint);
    }
    failure = outcome.status();
  }
  ExitCode code = outcome.ok() ? *outcome : ToExitCode(outcome.status().code());
  for (const Status& input : inputs) {
    if (!input.ok()) {
      if (outcome.ok() || outcome.status().message() != input.message()) {
        LogStatus(input);
      }
      code = ExitCode::kFailed;
      failure = failure.ok() ? input : failure;
    }
  }
  if (code == ExitCode::kFailed && !failure.ok() && !junit_file.empty() && junit.ok()) {
    if (const Status written = WriteJunitOfFailure(junit_file, title, failure); !written.ok()) {
      LogStatus(written);
    }
  }
  return code;
}

// A full disk behind stdout may only show when it is flushed, now or earlier.
int FinishOutput(ExitCode code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) {
    return static_cast<int>(code);
  }
  base::LogError("cannot write to the standard output; is the disk full?");
  return static_cast<int>(code == ExitCode::kDone ? ExitCode::kFailed : code);
}

// Where a log line, which is put together first, could fail in its turn.
template <typename... Texts>
void PrintWithoutMemory(const Texts&... texts) {
  (std::fputs(texts, stderr), ...);
}

int RunParsed(int argc, char** argv) {
  Context context;
  context.color = base::WantsColor(STDOUT_FILENO);
  context.width = TerminalWidth();
  context.has_edge = ::isatty(STDOUT_FILENO) == 1;
  context.ascii = !LocaleHasUtf8();
  Program program;
  Program fresh;  // its variables hold the defaults
  std::vector<std::string> arguments = {argv + std::min(argc, 1), argv + argc};
  if (arguments == std::vector<std::string>{"version"}) {  // as git, go and others have it
    arguments = {"--version"};
  }
  ParsedLine line = ParseArguments(program, arguments, &ProjectFile::Find);
  Command& command = *line.path.back();
  if (line.general.help && line.status.ok()) {
    return FinishOutput(PrintOrFail(HelpText(Untouched(line.path, fresh), context.width)));
  }
  if (!line.status.ok()) {
    return FinishOutput(ReportUsageError(line));
  }
  if (program.wants_version()) {
    return FinishOutput(PrintOrFail("msprobe " MSPROBE_VERSION "\n"));
  }
  if (command.is_group()) {
    return FinishOutput(PrintOrFail(HelpText(line.path, context.width)));
  }
  context.framework = program.framework();
  context.quiet = line.general.quiet;
  context.verbose = line.general.verbose;
  context.typed = std::move(line.typed);
  context.from_project = std::move(line.from_project);
  if (context.Given(ForceFlag().name)) {
    base::SetExistingFiles(base::Existing::kReplace);
  }
  if (context.verbose) {
    base::SetLogLevel(base::LogLevel::kDebug);
  }
  if (context.quiet) {
    base::SetLogLevel(base::LogLevel::kError);
  } else {
    base::SetProgressSink(&base::StderrProgress());
  }
  if (!line.project_remark.empty()) {
    base::LogInfo(line.project_remark);
  }
  return FinishOutput(RunChosen(line.path, line.paths, context));
}

}  // namespace

// Exceptions from outside of a command end here.
int RunCommandLine(int argc, char** argv) {
  base::InstallInterruptCleanup();
  base::GuardMappedFiles();
  base::NoteNewFolders();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  int code = static_cast<int>(ExitCode::kFailed);
  try {
    code = RunParsed(argc, argv);
  } catch (const std::bad_alloc&) {
    PrintWithoutMemory("error: ", kOutOfMemory, "\n  hint: ", kOutOfMemoryHint, "\n");
  } catch (const std::exception& error) {
    PrintWithoutMemory("error: unexpected: ", error.what(), "\n");
  }
  base::RemoveEmptyNewFolders();
  return code;
}

}  // namespace msprobe::commands
