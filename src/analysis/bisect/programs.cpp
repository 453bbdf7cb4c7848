// Programs that a search starts: git, pip, Python, this program, and the user's own. Always by a
// vector of arguments; only --check, which the user typed as a command of the shell, goes to one.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/analysis/bisect/sources.h"
#include "src/base/files.h"
#include "src/base/processes.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"

namespace msprobe::analysis::bisect {
namespace {

constexpr useconds_t kFirstPauseUs = 500;
constexpr useconds_t kLongestPauseUs = 20'000;
constexpr std::chrono::seconds kFarewell{5};  // between asking to end and ending

base::Descriptor OpenLog(const std::filesystem::path& path) {
  return base::Descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
}

// Between fork and exec: calls that are safe there only.
[[noreturn]] void Become(const Start& start, char** arguments, char** variables, int input,
                         int output, int errors, int complaint, pid_t parent) {
  ::setpgid(0, 0);  // ended with all that it starts
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  std::signal(SIGXFSZ, SIG_DFL);  // ignored by this program
  std::signal(SIGPIPE, SIG_DFL);
  if (::dup2(input, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      ::dup2(errors, STDERR_FILENO) >= 0 &&
      (start.folder.empty() || ::chdir(start.folder.c_str()) == 0)) {
    environ = variables;
    ::execvp(arguments[0], arguments);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(complaint, &error, sizeof(error));
  ::_exit(127);
}

int WaitUntil(pid_t child, std::chrono::steady_clock::time_point deadline, bool* ended) {
  int state = 0;
  useconds_t pause = kFirstPauseUs;
  for (;;) {
    const pid_t done = ::waitpid(child, &state, WNOHANG);
    *ended = done == child || (done < 0 && errno != EINTR);
    if (*ended || std::chrono::steady_clock::now() >= deadline) {
      return state;
    }
    ::usleep(pause);
    pause = std::min(pause * 2, kLongestPauseUs);
  }
}

}  // namespace

std::string End::text() const {
  return timed_out     ? "timeout"
         : signal != 0 ? fmt::format("signal {}", signal)
                       : fmt::format("exit {}", exit_code);
}

Result<End> RunToEnd(const Start& start) {
  const std::string shown = base::Printable(start.program[0]);
  Result<base::InputFile> input_file = start.input.empty() ? Result<base::InputFile>(OkStatus())
                                                           : base::InputFile::Open(start.input);
  if (!start.input.empty() && !input_file.ok()) {
    return std::move(input_file).status();
  }
  const base::Descriptor output = OpenLog(start.output);
  const base::Descriptor errors =
      start.errors.empty() ? base::Descriptor(-1) : OpenLog(start.errors);
  if (!output.is_open() || (!start.errors.empty() && !errors.is_open())) {
    return base::SystemError("write", output.is_open() ? start.errors : start.output, errno);
  }
  std::array<int, 2> complaint = {-1, -1};
  std::array<int, 2> nothing = {-1, -1};  // to read: its other end is closed
  const bool has_pipes =
      ::pipe2(complaint.data(), O_CLOEXEC) == 0 && ::pipe2(nothing.data(), O_CLOEXEC) == 0;
  const base::Descriptor reading(complaint[0]);
  base::Descriptor writing(complaint[1]);
  const base::Descriptor empty(nothing[0]);
  if (nothing[1] >= 0) {
    ::close(nothing[1]);
  }
  if (!has_pipes) {
    return IoError(fmt::format("cannot run {}: no pipe: {}", shown, std::strerror(errno)));
  }
  std::vector<std::string> variables =
      base::EnvironmentWith(start.variables, [&start](std::string_view name, std::string_view) {
        return !start.without_git_variables || !name.starts_with("GIT_");
      });
  std::vector<std::string> arguments = start.program;
  const std::vector<char*> argument_pointers = base::Pointers(arguments);
  const std::vector<char*> variable_pointers = base::Pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    Become(start, const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(variable_pointers.data()),
           start.input.empty() ? empty.get() : input_file->descriptor(), output.get(),
           errors.is_open() ? errors.get() : output.get(), writing.get(), parent);
  }
  if (child < 0) {
    return IoError(fmt::format("cannot run {}: {}", shown, std::strerror(errno)));
  }
  ::setpgid(child, child);  // whoever of the two is first
  writing = base::Descriptor(-1);
  int error = 0;
  if (::read(reading.get(), &error, sizeof(error)) == sizeof(error)) {
    ::waitpid(child, nullptr, 0);
    return NotFoundError(fmt::format("cannot run {}: {}", shown, std::strerror(error)));
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline =
      start.patience.count() > 0 ? Clock::now() + start.patience : Clock::time_point::max();
  End end;
  bool ended = false;
  int state = WaitUntil(child, deadline, &ended);
  if (!ended) {
    end.timed_out = true;
    ::kill(-child, SIGTERM);
    state = WaitUntil(child, Clock::now() + kFarewell, &ended);
  }
  ::kill(-child, SIGKILL);
  if (!ended) {
    ::waitpid(child, &state, 0);
  }
  if (WIFSIGNALED(state)) {
    end.signal = WTERMSIG(state);
  } else {
    end.exit_code = WEXITSTATUS(state);
  }
  return end;
}

std::string TailOf(const std::filesystem::path& log) {
  constexpr uint64_t kMostBytes = uint64_t{4} << 20;
  constexpr size_t kShownBytes = 400;
  Result<base::InputFile> file = base::InputFile::Open(log);
  if (!file.ok()) {
    return {};
  }
  std::string text(std::min<uint64_t>(file->size_bytes(), kMostBytes), '\0');
  const Result<size_t> count = file->ReadAt(file->size_bytes() - text.size(), text);
  text.resize(count.ok() ? *count : 0);
  text = base::MaskText(base::Trim(text)).text;
  if (text.size() > kShownBytes) {
    text = text.substr(text.size() - kShownBytes);
    text = text.substr(std::min(text.size(), text.find('\n') + 1));
  }
  return base::Printable(base::ReplaceAll(text, "\n", " | "));
}

}  // namespace msprobe::analysis::bisect
