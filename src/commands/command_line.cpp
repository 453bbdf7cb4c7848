#include "src/commands/command_line.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/interrupt.h"
#include "src/base/log.h"
#include "src/base/mapped_files.h"
#include "src/base/new_folders.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/registry.h"

namespace msprobe::commands {
namespace {

constexpr size_t kDefaultWidth = 100;

ExitCode ToExitCode(StatusCode code) {
  return code == StatusCode::kUsage ? ExitCode::kUsage : ExitCode::kFailed;
}

size_t TerminalWidth() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
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

// Everything a user may type after this (sub)command, for suggestions.
std::vector<std::string> KnownWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words.push_back("--" + name);
    }
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    words.push_back(command->get_name());
  }
  return words;
}

int ReportUsageError(const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& arguments) {
  const CLI::App* innermost = &app;
  std::string words;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().back();
    words += innermost->get_name() + " ";
  }
  const CLI::App& scope = *innermost;
  base::LogError(error.what());
  const std::vector<std::string> known = KnownWords(scope);
  for (const std::string& argument : arguments) {
    const std::string word = argument.substr(0, argument.find('='));
    const bool flag_or_command = word.starts_with("--") || &scope == &app;
    if (!flag_or_command || std::find(known.begin(), known.end(), word) != known.end()) {
      continue;
    }
    if (const auto nearest = base::NearestMatch(word, known)) {
      base::LogHint(fmt::format("did you mean {} instead of {}?", *nearest, word));
      break;
    }
  }
  base::LogHint(fmt::format("msprobe {}--help explains all flags", words));
  return static_cast<int>(ExitCode::kUsage);
}

// What libraries throw ends here, most of all that memory ran out.
Result<ExitCode> RunGuarded(Command& command, const Context& context) {
  try {
    Result<ExitCode> outcome = command.Run(context);
    if (Status inputs = base::CheckMappedFiles(); outcome.ok() && !inputs.ok()) {
      return inputs;
    }
    return outcome;
  } catch (const std::bad_alloc&) {
    return IoError("there is not enough memory")
        .WithHint("fewer --threads need less; look at ulimit -v and the memory of the container");
  } catch (const std::exception& error) {
    return InternalError(fmt::format("unexpected: {}", error.what()));
  }
}

ExitCode RunChosen(Command& command, const Context& context) {
  Result<ExitCode> outcome = RunGuarded(command, context);
  if (outcome.ok()) {
    return *outcome;
  }
  base::LogError(outcome.status().message());
  if (!outcome.status().hint().empty()) {
    base::LogHint(outcome.status().hint());
  }
  return ToExitCode(outcome.status().code());
}

// A full disk behind stdout may only show when it is flushed, now or earlier.
int FinishOutput(ExitCode code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) {
    return static_cast<int>(code);
  }
  base::LogError("cannot write to the standard output: is its disk full?");
  return static_cast<int>(code == ExitCode::kDone ? ExitCode::kFailed : code);
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  base::InstallInterruptCleanup();
  base::GuardMappedFiles();
  base::NoteNewFolders();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  Context context;
  CLI::App app(
      "msprobe finds out why a large model computes wrong or slow: compares dumps, shows what is "
      "in tensor files.\n"
      "Reads what PyTorch and MindSpore wrote without needing either.");
  app.name("msprobe");
  app.set_version_flag("--version", "msprobe " MSPROBE_VERSION);
  app.set_help_flag("-h,--help", "Show this help");
  app.require_subcommand(0, 1);
  app.add_option("-f,--framework", context.framework,
                 "Framework of the data: pytorch or mindspore (default: detected)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"pytorch", "mindspore"}));
  app.footer(
      "Run `msprobe COMMAND --help` for a command's flags and examples.\n"
      "Exit codes: 0 done, 1 findings (with --fail-on), 2 wrong usage, 3 unreadable input or "
      "failed output.");

  const std::vector<std::unique_ptr<Command>> commands = MakeCommands();
  for (const std::unique_ptr<Command>& command : commands) {
    CLI::App* sub =
        app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->add_flag("-q,--quiet", context.quiet, "No progress, no summary: errors only");
    command->Configure(*sub);
  }

  const std::vector<std::string> arguments =
      NormalizeLegacyFlags(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  try {
    // CLI11 takes the arguments last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& request) {
    app.exit(request, std::cout);  // --help, --version
    std::cout.flush();
    return FinishOutput(std::cout.good() ? ExitCode::kDone : ExitCode::kFailed);
  } catch (const CLI::ParseError& error) {
    return ReportUsageError(app, error, arguments);
  }
  if (context.quiet) {
    base::SetLogLevel(base::LogLevel::kError);
  } else {
    base::SetProgressSink(&base::StderrProgress());
  }
  context.color = base::WantsColor(STDOUT_FILENO);
  context.width = TerminalWidth();
  context.has_edge = ::isatty(STDOUT_FILENO) == 1;
  context.ascii = !LocaleHasUtf8();
  for (const std::unique_ptr<Command>& command : commands) {
    if (app.got_subcommand(std::string(command->name()))) {
      const ExitCode code = RunChosen(*command, context);
      base::RemoveEmptyNewFolders();
      return FinishOutput(code);
    }
  }
  std::fputs(app.help().c_str(), stdout);
  return FinishOutput(ExitCode::kDone);
}

}  // namespace msprobe::commands
