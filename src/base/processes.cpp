#include "src/base/processes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::base {
namespace {

// Fixed memory only: a signal handler may not allocate or lock.
constexpr size_t kMaxPathBytes = 4096;
constexpr size_t kMaxFiles = 64;

constexpr int kShellsSignalOffset = 128;

enum SlotState : int { kFree, kFilling, kArmed };

struct FileSlot {
  std::atomic<int> state{kFree};
  std::array<char, kMaxPathBytes> path{};
};

std::array<FileSlot, kMaxFiles> g_files;

// Empties and removes a folder, by system calls alone: readdir() allocates.
void RemoveFolder(int parent, const char* name, int depth) {
  constexpr int kDeepest = 16;  // what this program makes is flatter
  const int folder =
      ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (folder < 0) {
    return;
  }
  alignas(dirent64) std::array<char, 4096> block;
  bool removed = depth < kDeepest;
  while (removed) {  // from the start again until nothing goes any more
    removed = false;
    ::lseek(folder, 0, SEEK_SET);
    const long bytes = ::syscall(SYS_getdents64, folder, block.data(), block.size());
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(block.data() + at);
      at += entry->d_reclen;
      const std::string_view entry_name = entry->d_name;
      if (entry_name == "." || entry_name == "..") {
        continue;
      }
      if (::unlinkat(folder, entry->d_name, 0) == 0) {
        removed = true;
      } else if (errno == EISDIR || errno == EPERM) {
        RemoveFolder(folder, entry->d_name, depth + 1);
        removed |= ::faccessat(folder, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
      }
    }
  }
  ::close(folder);
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

void RemoveFiles() {
  for (FileSlot& slot : g_files) {
    if (slot.state.load(std::memory_order_acquire) == kArmed && ::unlink(slot.path.data()) != 0 &&
        (errno == EISDIR || errno == EPERM)) {
      RemoveFolder(AT_FDCWD, slot.path.data(), 0);
    }
  }
}

extern "C" void RemoveFilesAndDie(int signal_number) {
  RemoveFiles();
  std::signal(signal_number, SIG_DFL);
  // Blocked, it would wait: ThreadSanitizer's runtime blocks all signals while a handler runs.
  sigset_t itself;
  sigemptyset(&itself);
  sigaddset(&itself, signal_number);
  ::pthread_sigmask(SIG_UNBLOCK, &itself, nullptr);
  std::raise(signal_number);
  // The first process of a container is not ended by its own signals: then as a shell tells of
  // them.
  ::_exit(kShellsSignalOffset + signal_number);
}

// May neither allocate nor wait for a lock that a broken thread holds.
[[noreturn]] void RemoveFilesAndGiveUp() {
  RemoveFiles();
  constexpr std::string_view kMessage =
      "error: cannot go on, most likely for lack of memory\n"
      "  hint: use fewer --threads; check ulimit -v and the memory limit of the container\n";
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  constexpr int kFailed = 3;
  ::_exit(kFailed);
}

}  // namespace

void InstallTerminateCleanup() { std::set_terminate(&RemoveFilesAndGiveUp); }

void InstallInterruptCleanup() {
  InstallTerminateCleanup();
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    struct sigaction previous {};
    action.sa_handler = RemoveFilesAndDie;
    action.sa_flags = SA_NODEFER | SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    // Respect a parent that ignores the signal for us (nohup).
    if (::sigaction(signal_number, nullptr, &previous) == 0 && previous.sa_handler != SIG_IGN) {
      ::sigaction(signal_number, &action, nullptr);
    }
  }
}

namespace {

// What the handler of FirstInterrupt may touch: it can neither allocate nor lock.
struct {
  struct sigaction before {};
  std::array<char, 256> message{};
  size_t message_size = 0;
  std::atomic<bool> came{false};
} g_first_interrupt;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void NoteInterrupt(int signal_number) {
  const int error = errno;
  g_first_interrupt.came.store(true);
  ::sigaction(signal_number, &g_first_interrupt.before, nullptr);
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, g_first_interrupt.message.data(), g_first_interrupt.message_size);
  errno = error;
}

}  // namespace

FirstInterrupt::FirstInterrupt(const std::string& message) {
  g_first_interrupt.came.store(false);
  g_first_interrupt.message_size =
      message.copy(g_first_interrupt.message.data(), g_first_interrupt.message.size());
  ::sigaction(SIGINT, nullptr, &g_first_interrupt.before);
  is_ignored_ = g_first_interrupt.before.sa_handler == SIG_IGN;
  if (!is_ignored_) {
    struct sigaction action {};
    action.sa_handler = NoteInterrupt;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
  }
}

FirstInterrupt::~FirstInterrupt() {
  if (!is_ignored_) {
    ::sigaction(SIGINT, &g_first_interrupt.before, nullptr);
  }
}

bool FirstInterrupt::came() const { return g_first_interrupt.came.load(); }

int RemoveOnInterrupt(const std::string& path) {
  if (path.size() >= kMaxPathBytes) {
    return -1;
  }
  for (size_t i = 0; i < g_files.size(); ++i) {
    int expected = kFree;
    if (g_files[i].state.compare_exchange_strong(expected, kFilling)) {
      std::memcpy(g_files[i].path.data(), path.c_str(), path.size() + 1);
      g_files[i].state.store(kArmed, std::memory_order_release);
      return static_cast<int>(i);
    }
  }
  return -1;
}

void ForgetOnInterrupt(int slot) {
  if (slot >= 0) {
    g_files[static_cast<size_t>(slot)].state.store(kFree, std::memory_order_release);
  }
}

namespace {

using PatienceClock = std::chrono::steady_clock;

// Reads until the other end is closed or the time is over; whether it was closed.
bool ReadToEnd(int descriptor, PatienceClock::time_point deadline, size_t most_bytes,
               ChildEnd& end) {
  std::array<char, 65536> block;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - PatienceClock::now())
            .count();
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

// A process that it started may still hold the pipe open: the end of the pipe is awaited until the
// deadline as well.
void WaitFor(pid_t child, bool closed, PatienceClock::time_point deadline, ChildEnd& end) {
  int state = 0;
  pid_t ended = 0;
  while (closed && (ended = ::waitpid(child, &state, WNOHANG)) == 0 &&
         PatienceClock::now() < deadline) {
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
  const PatienceClock::time_point deadline = PatienceClock::now() + options.patience;
  const bool closed = ReadToEnd(ends[0], deadline, options.most_bytes, end);
  ::close(ends[0]);
  WaitFor(child, closed, deadline, end);
  return end;
}

namespace {

constexpr uint64_t kMaxPartBytes = uint64_t{1} << 30U;
constexpr std::chrono::milliseconds kFirstPause{20};
constexpr std::chrono::milliseconds kLongestPause{1000};

struct Launcher {
  const char* index;
  const char* count;
  std::array<const char*, 3> identity;  // joined; unset ones are left out
};
// SLURM_NTASKS is set in the job script, too; the task count of a step only by srun.
constexpr std::array<Launcher, 3> kLaunchers = {
    {{"OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", nullptr}},
     // A job that Slurm puts back into its queue keeps its number.
     {"SLURM_PROCID",
      "SLURM_STEP_NUM_TASKS",
      {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
     {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID", "SLURM_JOB_ID", nullptr}}}};

std::optional<size_t> NumberOf(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = ParseInt(text);
  return number.has_value() && *number >= 0 ? std::optional(static_cast<size_t>(*number))
                                            : std::nullopt;
}

// Letters and digits only: it becomes part of a folder's name.
std::string IdentityOf(const Launcher& launcher) {
  std::string identity;
  for (const char* variable : launcher.identity) {
    if (const char* text = variable == nullptr ? nullptr : std::getenv(variable)) {
      identity += '_';
      for (const char c : std::string_view(text).substr(0, 64)) {
        const bool plain =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        identity += plain ? c : '-';
      }
    }
  }
  return identity;
}

}  // namespace

ProcessShare ShareFromEnvironment() {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<size_t> index = NumberOf(launcher.index);
    const std::optional<size_t> count = NumberOf(launcher.count);
    if (index.has_value() && count.has_value() && *index < *count) {
      return {*index, *count, IdentityOf(launcher)};
    }
  }
  return {};
}

// Elsewhere another host may write, whose locks are not seen here.
bool IsOfThisMachine(int folder) {
  constexpr std::array<uint64_t, 8> kLocal = {
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // xfs
      0x9123683E,  // btrfs
      0x01021994,  // tmpfs
      0x794C7630,  // overlayfs
      0xF2F52010,  // f2fs
      0x2FC12FC1,  // zfs
      0x858458F6,  // ramfs
  };
  struct statfs system {};
  return ::fstatfs(folder, &system) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), static_cast<uint32_t>(system.f_type)) !=
             kLocal.end();
}

Path PartFile(const Path& folder, const ProcessShare& share, size_t index) {
  return folder / fmt::format("part_{}_of_{}.json", index, share.count);
}

Path PartsFolder(const Path& output, std::string_view command, const ProcessShare& share) {
  return output / fmt::format(".{}_parts{}", command, share.launch);
}

Status DeliverPart(const Path& folder, const ProcessShare& share, std::string_view text) {
  MSP_RETURN_IF_ERROR(CreateFolders(folder));
  return WriteFileAtomically(PartFile(folder, share, share.index), text, Existing::kReplace);
}

Result<std::vector<Part>> CollectParts(const Path& folder, const ProcessShare& share,
                                       std::chrono::seconds patience, std::vector<size_t>& late,
                                       const PartRules& rules) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<Part> parts;
  std::chrono::milliseconds pause = kFirstPause;
  std::vector<size_t> waiting;
  for (size_t index = 0; index < share.count; ++index) {
    if (!rules.skips_own || index != share.index) {
      waiting.push_back(index);
    }
  }
  late.clear();
  std::error_code ignored;
  while (true) {
    std::vector<size_t> still;
    for (const size_t index : waiting) {
      const Path file = PartFile(folder, share, index);
      // Asked before the look at the file: a process may deliver and end in between.
      const bool has_ended = rules.has_ended && rules.has_ended(index);
      std::string text;
      bool is_there = std::filesystem::exists(file, ignored);
      if (is_there) {
        MSP_ASSIGN_OR_RETURN(text, ReadTextFile(file, kMaxPartBytes));
        is_there = !rules.accepts || rules.accepts(text);
      }
      if (!is_there) {
        (has_ended ? late : still).push_back(index);
        continue;
      }
      parts.push_back({file, std::move(text), index});
      if (!rules.keeps) {
        std::filesystem::remove(file, ignored);
      }
    }
    waiting = std::move(still);
    if (waiting.empty() || std::chrono::steady_clock::now() >= deadline) {
      break;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  late.insert(late.end(), waiting.begin(), waiting.end());
  std::sort(late.begin(), late.end());
  if (late.empty()) {
    std::filesystem::remove(folder, ignored);  // fails, rightly, where it is not empty
  }
  return parts;
}

}  // namespace msprobe::base
