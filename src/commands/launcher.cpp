#include "src/commands/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

// From the program's folder: an installation or an unpacked archive, a build folder, a copy.
constexpr std::string_view kOwnFolders[] = {"../lib/msprobe/python", "../python", "python"};

// Empty when nothing tells: in a container without /proc, and started by a name that does not lead
// to it.
fs::path OwnProgram() {
  std::error_code failure;
  fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (failure) {
    const auto* const started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    program = started_as == nullptr ? fs::path() : fs::canonical(started_as, failure);
  }
  return program;
}

bool HoldsPackage(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "msprobe" / "_inject" / "sitecustomize.py", ignored);
}

// Where pip puts packages whose programs it puts into `programs`: an environment or a prefix
// (lib64 on some distributions, dist-packages on Debian), or a folder named by `--target`.
std::vector<fs::path> FoldersOfPip(const fs::path& programs) {
  std::vector<fs::path> folders = {programs / ".."};
  for (const std::string_view library : {"../lib", "../lib64"}) {
    std::error_code failure;
    for (fs::directory_iterator entry(programs / library, failure), end; !failure && entry != end;
         entry.increment(failure)) {
      if (entry->path().filename().string().starts_with("python3")) {
        folders.push_back(entry->path() / "site-packages");
        folders.push_back(entry->path() / "dist-packages");
      }
    }
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

}  // namespace

Result<fs::path> FindPythonFolder() {
  if (const char* named = std::getenv("MSPROBE_PYTHON_PATH"); named != nullptr && *named != '\0') {
    if (!HoldsPackage(named)) {
      return NotFoundError(
                 fmt::format(
                     "MSPROBE_PYTHON_PATH is {}, which does not contain the Python package msprobe",
                     base::Printable(named)))
          .WithHint("unset it, or set it to the folder that holds the package msprobe");
    }
    // Absolute: the script may change its working directory before it starts further processes.
    std::error_code failure;
    const fs::path folder = fs::absolute(named, failure);
    if (failure) {
      return IoError(fmt::format("cannot resolve MSPROBE_PYTHON_PATH={}: {}",
                                 base::Printable(named), failure.message()));
    }
    return folder;
  }
  const fs::path program = OwnProgram();
  if (program.empty()) {
    return NotFoundError("cannot find the location of this program without /proc")
        .WithHint("mount /proc, or set MSPROBE_PYTHON_PATH to the folder of the package msprobe");
  }
  const fs::path programs = program.parent_path();
  for (const std::string_view folder : kOwnFolders) {
    if (HoldsPackage(programs / folder)) {
      return (programs / folder).lexically_normal();
    }
  }
  constexpr std::string_view kRecord = "msprobe-" MSPROBE_VERSION ".dist-info";
  for (const fs::path& folder : FoldersOfPip(programs)) {
    std::error_code ignored;
    if (HoldsPackage(folder) && fs::exists(folder / kRecord, ignored)) {
      return folder.lexically_normal();
    }
  }
  return NotFoundError(fmt::format("the Python package of msprobe {} is not beside {}",
                                   MSPROBE_VERSION, base::Printable(program.string())))
      .WithHint("set MSPROBE_PYTHON_PATH to the folder that holds the package msprobe");
}

Result<std::string> PathThatFinds(const fs::path& folder) {
  std::string path = (folder / "msprobe" / "_inject").string();
  if (path.find(':') != std::string::npos) {
    return UsageError(fmt::format("the Python package of msprobe is in {}, and PYTHONPATH cannot "
                                  "name a folder with a colon",
                                  base::Printable(folder.string())))
        .WithHint("move it, or set MSPROBE_PYTHON_PATH to a copy or a link without a colon");
  }
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr && *before != '\0') {
    path += ":";
    path += before;
  }
  return path;
}

namespace {

constexpr char kFrameworkLetter = 'f';
constexpr char kReasonBegins = '!';  // up to the end of the line
constexpr size_t kMostReasons = 8;
constexpr uint64_t kMostTraceBytes = uint64_t{16} << 20;

// The temporary file to which the processes append letters, and lines with their reasons.
class LaunchTrace {
 public:
  // Makes the file, in the folder for temporary files and readable for this user only; without it
  // path() is empty.
  LaunchTrace() {
    std::error_code failure;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
    if (failure) {
      return;
    }
    std::string path;
    base::RemoveAbandoned(folder, base::Leftovers::kOfLaunchers);
    descriptor_ = base::MakeUnfinished([&] {
      path = (folder / "msprobe-launch-XXXXXX").string();
      return ::mkostemp(path.data(), O_CLOEXEC);
    });
    if (descriptor_ >= 0) {
      path_ = std::move(path);
    }
  }
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;
  ~LaunchTrace() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  const std::string& path() const { return path_; }

  LaunchProgress Read() const {
    if (path_.empty()) {
      return LaunchProgress::kUnknown;
    }
    const Result<std::string> letters = base::ReadTextFile(path_, kMostTraceBytes);
    if (!letters.ok()) {
      return LaunchProgress::kUnknown;
    }
    if (letters->empty()) {
      return LaunchProgress::kNoPython;
    }
    bool in_reason = false;
    for (const char letter : *letters) {
      if (letter == kFrameworkLetter && !in_reason) {
        return LaunchProgress::kFramework;
      }
      in_reason = in_reason ? letter != '\n' : letter == kReasonBegins;
    }
    return LaunchProgress::kPython;
  }

  // Each once.
  std::vector<std::string> Reasons() const {
    std::vector<std::string> reasons;
    const Result<std::string> text = path_.empty() ? Result<std::string>(std::string())
                                                   : base::ReadTextFile(path_, kMostTraceBytes);
    size_t begin = text.ok() ? text->find(kReasonBegins) : std::string::npos;
    while (begin != std::string::npos && reasons.size() < kMostReasons) {
      const size_t end = std::min(text->find('\n', begin), text->size());
      std::string reason = base::Printable(text->substr(begin + 1, end - begin - 1));
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
        reasons.push_back(std::move(reason));
      }
      begin = text->find(kReasonBegins, end);
    }
    return reasons;
  }

 private:
  std::string path_;
  int descriptor_ = -1;  // for its lock
};

}  // namespace

std::filesystem::path UnusedFolder(std::string_view name) {
  std::filesystem::path folder(name);
  std::error_code ignored;
  for (int number = 2; std::filesystem::exists(folder, ignored); ++number) {
    folder = fmt::format("{}_{}", name, number);
  }
  return folder;
}

FileStamp StampOf(const std::filesystem::path& file) {
  struct stat state = {};
  if (::stat(file.c_str(), &state) != 0) {
    return {};
  }
  return {state.st_ino, int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec,
          static_cast<uint64_t>(state.st_size)};
}

std::string WhyNothing(LaunchProgress progress, std::string_view framework,
                       const std::vector<std::string>& reasons) {
  const std::string_view name = framework == "mindspore" ? "MindSpore" : "PyTorch";
  switch (progress) {
    case LaunchProgress::kUnknown:
      return {};
    case LaunchProgress::kNoPython:
      return "no Python process of the program loaded msprobe: it needs PYTHONPATH, which python3 "
             "-I, -E and -S ignore, env -i, sudo and ssh do not pass on, and a script may set anew "
             "without what was in it";
    case LaunchProgress::kPython:
      return fmt::format("no Python process of the program imported {}", name);
    case LaunchProgress::kFramework:
      return fmt::format("{} was imported, but {}", name,
                         reasons.empty()
                             ? "in the chosen steps and ranks no model with parameters was called"
                             : base::Join(reasons, "; "));
  }
  return {};
}

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

LaunchOptions LaunchOf(const std::vector<std::string>& program, std::string_view framework,
                       const AnswerFlags& answer, const Context& context) {
  LaunchOptions options;
  options.program = program;
  options.framework = framework;
  options.quiet = context.quiet;
  options.output_to_stderr = answer.json;
  return options;
}

Result<ExitCode> EmitAndEnd(report::Document document, const AnswerFlags& answer,
                            const Context& context, const ProgramEnd& end,
                            std::optional<int> exit_code, const std::filesystem::path& page) {
  OwnForms own;
  own.page = page;
  own.to_stderr = true;
  own.exit_code = exit_code;
  Result<ExitCode> code = EmitReport(std::move(document), answer, context, own);
  if (end.signal != 0) {
    std::fflush(stdout);
    EndBySignal(end.signal);
  }
  return code;
}

Result<ExitCode> ReportEnd(const ProgramEnd& end, std::string_view command,
                           std::string_view nothing, std::string_view framework,
                           const AnswerFlags& answer, const Context& context,
                           report::Document made) {
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
    MSP_RETURN_IF_ERROR(EmitReport(std::move(document), answer, context, own).status());
    std::fflush(stdout);
  } else if (!document.verdict.text.empty()) {
    own.to_stderr = true;
    MSP_RETURN_IF_ERROR(EmitReport(std::move(document), answer, context, own).status());
  }
  if (end.signal != 0) {
    EndBySignal(end.signal);
  }
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace msprobe::commands
