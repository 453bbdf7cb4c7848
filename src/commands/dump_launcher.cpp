#include "src/commands/dump_launcher.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/commands/python_package.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

constexpr const char* kErrorsOnly = "3";  // of MSPROBE_LOG_LEVEL
constexpr int kShellsSignalOffset = 128;
// The last two are what schedulers warn with, so that a script saves its state.
constexpr std::array<int, 6> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

volatile std::sig_atomic_t program_id = 0;
volatile std::sig_atomic_t early_signal = 0;  // came before there was a program

// A terminal sends its signals to the program, too; a second one would interrupt its clean-up.
void PassOn(int signal, siginfo_t* info, void* /*context*/) {
  if (program_id == 0) {
    early_signal = signal;
  } else if (info->si_code != SI_KERNEL) {
    ::kill(program_id, signal);
  }
}

class PassingSignalsOn {
 public:
  PassingSignalsOn() {
    struct sigaction action = {};
    action.sa_sigaction = &PassOn;
    // Not SA_RESTART: ThreadSanitizer's runtime calls handlers when a system call has returned, and
    // waiting for the program would go on instead.
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], nullptr, &before_[i]);
      // Whoever started this program with a signal ignored (nohup) meant the script as well.
      if (before_[i].sa_handler != SIG_IGN) {
        ::sigaction(kPassedOn[i], &action, nullptr);
      }
    }
  }
  PassingSignalsOn(const PassingSignalsOn&) = delete;
  PassingSignalsOn& operator=(const PassingSignalsOn&) = delete;
  ~PassingSignalsOn() {
    for (size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], &before_[i], nullptr);
    }
    program_id = 0;
  }

 private:
  std::array<struct sigaction, kPassedOn.size()> before_ = {};
};

Result<ProgramEnd> WaitFor(pid_t program) {
  int state = 0;
  // As the first process of a container it is given those whose parents have ended: they must be
  // waited for, too.
  for (pid_t ended = 0; ended != program; ended = ::waitpid(-1, &state, 0)) {
    if (ended < 0 && errno != EINTR) {
      return IoError(fmt::format("cannot wait for the program: {}", std::strerror(errno)));
    }
  }
  ProgramEnd end;
  if (WIFSIGNALED(state)) {
    end.signal = WTERMSIG(state);
  } else {
    end.exit_code = WEXITSTATUS(state);
  }
  return end;
}

}  // namespace

Result<ProgramEnd> RunWithCapture(const LaunchOptions& options) {
  if (const Status writable = base::CheckWritable(options.output_folder); !writable.ok()) {
    base::LogWarning(writable.message());
    base::LogHint("nothing is recorded, unless the processes run on a host where this is possible");
  }
  MSP_ASSIGN_OR_RETURN(const fs::path python, FindPythonFolder());
  MSP_ASSIGN_OR_RETURN(std::string python_path, PathThatFinds(python));
  const LaunchTrace trace;
  std::error_code ignored;
  std::vector<std::pair<std::string, std::string>> changes = {
      {"PYTHONPATH", std::move(python_path)},
      {fmt::format("MSPROBE_{}_TRACE", options.purpose), trace.path()},
      // Also tells that there is a launcher: set, if empty, without a file.
      {fmt::format("MSPROBE_{}_CONFIG", options.purpose),
       options.config_file.empty() ? "" : fs::absolute(options.config_file, ignored).string()},
      {fmt::format("MSPROBE_{}_OVERRIDES", options.purpose), options.overrides_json},
      {fmt::format("MSPROBE_{}_FRAMEWORK", options.purpose), std::string(options.framework)}};
  changes.insert(changes.end(), options.variables.begin(), options.variables.end());
  if (options.quiet) {
    changes.emplace_back("MSPROBE_LOG_LEVEL", kErrorsOnly);
  }
  std::vector<std::string> variables = base::EnvironmentWith(changes);
  std::vector<std::string> arguments = options.program;
  const std::vector<char*> argument_pointers = base::Pointers(arguments);
  const std::vector<char*> variable_pointers = base::Pointers(variables);

  const PassingSignalsOn signals;
  pid_t program = 0;
  // This program ignores the signal of the file size limit; the script begins with the default.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGXFSZ);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (options.output_to_stderr) {
    ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  }
  const int failure = ::posix_spawnp(&program, argument_pointers[0], &files, &attributes,
                                     argument_pointers.data(), variable_pointers.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    return NotFoundError(fmt::format("cannot run {}: {}", base::Printable(options.program[0]),
                                     std::strerror(failure)));
  }
  program_id = program;
  if (early_signal != 0) {
    ::kill(program, early_signal);
  }
  MSP_ASSIGN_OR_RETURN(ProgramEnd end, WaitFor(program));
  end.progress = trace.Read();
  end.reasons = trace.Reasons();
  return end;
}

void EndBySignal(int signal) {
  // The program has left its core file, if any.
  const struct rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  // The first process of a container is not ended by its own signals: then as a shell tells of
  // them.
  std::_Exit(kShellsSignalOffset + signal);
}

Result<ExitCode> TellEnd(const ProgramEnd& end, std::string_view command, std::string_view nothing,
                         std::string_view framework, const AnswerFlags& answer,
                         const Context& context, report::Document made) {
  const bool succeeded = end.signal == 0 && end.exit_code == 0;
  if (end.progress == LaunchProgress::kNoPython ||
      (end.progress == LaunchProgress::kPython && succeeded)) {
    base::LogWarning(fmt::format("{}: {}", nothing, WhyNothing(end.progress, framework)));
  }
  OwnForms own;
  own.exit_code = end.exit_code;
  report::Document document = std::move(made);
  document.command = command;
  if (answer.json) {
    document.verdict.word = succeeded ? "DONE" : "FAILED";
    document.verdict.text = end.signal != 0
                                ? fmt::format("the script was ended by signal {}", end.signal)
                                : fmt::format("the script ended with exit code {}", end.exit_code);
    document.verdict.number = static_cast<double>(end.exit_code);
    MSP_RETURN_IF_ERROR(GiveAnswer(std::move(document), answer, context, own).status());
    std::fflush(stdout);
  } else if (!document.verdict.text.empty()) {
    own.to_stderr = true;
    MSP_RETURN_IF_ERROR(GiveAnswer(std::move(document), answer, context, own).status());
  }
  if (end.signal != 0) {
    EndBySignal(end.signal);
  }
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace msprobe::commands
