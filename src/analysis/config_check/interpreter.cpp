#include "src/analysis/config_check/interpreter.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::analysis::config_check::internal {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kAnswerLimitBytes = size_t{1} << 20U;
// Site packages may print while Python starts: the answer begins behind the last mark.
constexpr std::string_view kMark = "\x01msprobe\x01";
constexpr char kEnd = '\x02';
constexpr const char* kQuestion =
    "import sys\n"
    "parts = ['%d.%d.%d' % sys.version_info[:3], sys.executable or ''] + sys.path\n"
    "text = '\\x01msprobe\\x01' + '\\0'.join(parts) + '\\x02'\n"
    "sys.stdout.buffer.write(text.encode('utf-8', 'surrogateescape'))\n";

// As shells look: what may not be run or entered is passed over. base::IsRegularFile() remembers
// what the system did not tell, so that another Python is not taken without a word.
bool IsProgram(const fs::path& path) {
  const bool is_forbidden = ::access(path.c_str(), X_OK) != 0 && errno == EACCES;
  return !is_forbidden && base::IsRegularFile(path);
}

// Empty when PATH leads to none.
fs::path LookUp(const std::string& name, const std::string& search_path) {
  for (const std::string_view folder : base::Split(search_path, ':')) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (IsProgram(candidate)) {
      return candidate;
    }
  }
  return {};
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }
  int get() const { return value_; }
  void Close() {
    if (value_ >= 0) {
      ::close(value_);
      value_ = -1;
    }
  }

 private:
  int value_;
};

// Reads until the other end closes; false when the time is over or there is too much.
bool ReadAnswer(int descriptor, Clock::time_point deadline, std::string& answer) {
  std::array<char, 16384> buffer{};
  while (answer.size() <= kAnswerLimitBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    struct pollfd wait = {descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) {
      return true;
    }
    if (count < 0 && errno != EINTR) {
      return false;
    }
    answer.append(buffer.data(), count < 0 ? 0 : static_cast<size_t>(count));
    // The answer is whole: whatever the interpreter does before it ends is of no interest.
    if (answer.ends_with(kEnd) && answer.find(kMark) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// In a process group of its own, so that it can be ended with all that it starts.
Result<pid_t> StartProgram(const fs::path& program, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::string path = program.string();
  std::string no_files = "-B";  // it must leave no compiled files behind
  std::string command = "-c";
  std::string question = kQuestion;
  std::array<char*, 5> arguments = {path.data(), no_files.data(), command.data(), question.data(),
                                    nullptr};
  pid_t child = 0;
  const int failure =
      ::posix_spawn(&child, path.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    return IoError(fmt::format("cannot run {}: {}", path, std::strerror(failure)));
  }
  return child;
}

Result<Interpreter> ParseAnswer(const fs::path& program, std::string_view answer) {
  const size_t mark = answer.rfind(kMark);
  Interpreter interpreter;
  if (mark != std::string_view::npos && answer.ends_with(kEnd)) {
    answer.remove_prefix(mark + kMark.size());
    answer.remove_suffix(1);
    const std::vector<std::string_view> parts = base::Split(answer, '\0');
    if (parts.size() >= 2) {
      interpreter.version = parts[0];
      interpreter.path = parts[1].empty() ? program : fs::path(parts[1]);
      for (size_t i = 2; i < parts.size(); ++i) {
        interpreter.search_path.emplace_back(parts[i]);
      }
      return interpreter;
    }
  }
  return BadFormatError(
             fmt::format("{} did not report its package path (sys.path)", program.string()))
      .WithHint("check that it is Python 3, or name another one with --python");
}

}  // namespace

Result<fs::path> FindInterpreter(const std::string& wanted, const Environment& environment) {
  const std::string search_path = ValueOf(environment, "PATH");
  if (!wanted.empty()) {
    const fs::path found =
        wanted.find('/') == std::string::npos ? LookUp(wanted, search_path) : fs::path(wanted);
    if (!IsProgram(found)) {
      return NotFoundError(fmt::format("--python {}: there is no such program", wanted))
          .WithHint("name the interpreter that runs the training, e.g. /usr/bin/python3");
    }
    return found;
  }
  for (const char* name : {"python3", "python"}) {
    if (fs::path found = LookUp(name, search_path); !found.empty()) {
      return found;
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = ValueOf(environment, variable);
    if (const fs::path found = fs::path(folder) / "bin" / "python3";
        !folder.empty() && IsProgram(found)) {
      return found;
    }
  }
  return NotFoundError("no Python in PATH, VIRTUAL_ENV or CONDA_PREFIX: packages are not recorded")
      .WithHint("name the interpreter that runs the training with --python");
}

Result<Interpreter> AskInterpreter(const fs::path& program, double limit_seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return IoError(
        fmt::format("cannot run {}: no pipe: {}", program.string(), std::strerror(errno)));
  }
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  MSP_ASSIGN_OR_RETURN(const pid_t child, StartProgram(program, writing.get()));
  writing.Close();
  std::string answer;
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_seconds));
  const bool in_time = ReadAnswer(reading.get(), Clock::now() + limit, answer);
  ::kill(-child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return IoError(fmt::format("{} did not answer within {} s", program.string(), limit_seconds))
        .WithHint("name another interpreter with --python");
  }
  return ParseAnswer(program, answer);
}

}  // namespace msprobe::analysis::config_check::internal
