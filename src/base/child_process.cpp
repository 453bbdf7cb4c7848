#include "src/base/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/strings.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::base {
namespace {

using Clock = std::chrono::steady_clock;

// Reads until the other end is closed or the time is over; whether it was closed.
bool ReadToEnd(int descriptor, Clock::time_point deadline, size_t most_bytes, ChildEnd& end) {
  std::array<char, 65536> block;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return false;
    }
    struct pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) {
      return true;
    }
    if (ready <= 0) {
      continue;
    }
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return true;
    }
    if (count > 0) {
      const size_t room = most_bytes - std::min(most_bytes, end.output.size());
      end.cut = end.cut || static_cast<size_t>(count) > room;
      end.output.append(block.data(), std::min(static_cast<size_t>(count), room));
    }
  }
}

// What it has left behind, such as a process that it started, may hold the pipe open: its own end
// is waited for until the deadline as well.
void WaitFor(pid_t child, bool closed, Clock::time_point deadline, ChildEnd& end) {
  int state = 0;
  pid_t ended = 0;
  while (closed && (ended = ::waitpid(child, &state, WNOHANG)) == 0 && Clock::now() < deadline) {
    ::usleep(1000);
  }
  if (ended != child) {
    ended = ::waitpid(child, &state, WNOHANG);
  }
  if (ended != child) {
    end.timed_out = true;
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
  }
  if (WIFSIGNALED(state)) {
    end.signal = WTERMSIG(state);
  } else {
    end.exit_code = WEXITSTATUS(state);
  }
}

}  // namespace

std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes,
    const std::function<bool(std::string_view name, std::string_view value)>& keeps) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool kept = !keeps || keeps(name, text.substr(std::min(text.size(), name.size() + 1)));
    for (const auto& change : changes) {
      kept = kept && change.first != name;
    }
    if (kept) {
      result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    result.push_back(fmt::format("{}={}", name, value));
  }
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

Result<ChildEnd> RunChild(const ChildOptions& options) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return IoError(fmt::format("cannot run {}: no pipe: {}", Printable(options.program[0]),
                               std::strerror(errno)));
  }
  std::vector<std::string> variables = EnvironmentWith(options.variables);
  std::vector<std::string> arguments = options.program;
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> variable_pointers = Pointers(variables);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGXFSZ);  // ignored by this program
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // killed with all that it started
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, argument_pointers[0], &files, &attributes,
                                     argument_pointers.data(), variable_pointers.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (failure != 0) {
    ::close(ends[0]);
    return NotFoundError(
        fmt::format("cannot run {}: {}", Printable(options.program[0]), std::strerror(failure)));
  }
  ChildEnd end;
  const Clock::time_point deadline = Clock::now() + options.patience;
  const bool closed = ReadToEnd(ends[0], deadline, options.most_bytes, end);
  ::close(ends[0]);
  WaitFor(child, closed, deadline, end);
  return end;
}

}  // namespace msprobe::base
