#include "src/analysis/accuracy/check/worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/base/threads.h"

namespace msprobe::analysis::accuracy {
namespace {

using Clock = std::chrono::steady_clock;

// Where the worker finds what it is given.
constexpr int kSocket = 3;
constexpr int kArguments = 4;
constexpr int kResults = 5;
// Descriptors are moved beyond those before they are given.
constexpr int kFirstFree = 10;

constexpr std::chrono::seconds kStartLimit{300};  // for imports on slow file systems
constexpr size_t kLastWordsBytes = 2000;
constexpr off_t kMostWordsBytes = off_t{1} << 20U;  // that are kept from call to call

// Variables that set up Python, the framework and its devices.
constexpr std::array<std::string_view, 14> kVariables = {"PATH",
                                                         "HOME",
                                                         "USER",
                                                         "LOGNAME",
                                                         "LANG",
                                                         "LANGUAGE",
                                                         "TZ",
                                                         "TMPDIR",
                                                         "LD_LIBRARY_PATH",
                                                         "LD_PRELOAD",
                                                         "VIRTUAL_ENV",
                                                         "TOOLCHAIN_HOME",
                                                         "TASK_QUEUE_ENABLE",
                                                         "MALLOC_CONF"};
constexpr std::array<std::string_view, 35> kVariableFamilies = {
    "LC_",     "PYTHON",    "CONDA_",    "PYENV_",   "OMP_",  "GOMP_",      "KMP_",
    "MKL_",    "OPENBLAS_", "DNNL_",     "ONEDNN_",  "ATEN_", "TORCH_",     "PYTORCH_",
    "CUDA_",   "NVIDIA_",   "CUBLAS_",   "CUDNN_",   "HIP_",  "ROCR_",      "MIOPEN_",
    "ASCEND_", "NPU_",      "ACL_",      "CANN_",    "HCCL_", "ATB_",       "ASDOPS_",
    "TBE_",    "TE_",       "COMBINED_", "INF_NAN_", "MS_",   "MINDSPORE_", "GLOG_"};
// Settings, and nothing that a name or a value makes look like a secret: what an operator is made
// to do must not find one.
bool IsForWorkers(std::string_view name, std::string_view value) {
  return base::IsOneOf(name, kVariables) ||
         (std::any_of(kVariableFamilies.begin(), kVariableFamilies.end(),
                      [&](std::string_view family) { return name.starts_with(family); }) &&
          base::MaskValue(name, value).count == 0);
}

int LeftMs(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

// kOk when the socket is ready, kNotFound when the time is over.
Status WaitUntilReady(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    struct pollfd waiting = {.fd = socket, .events = events, .revents = 0};
    const int left = LeftMs(deadline);
    const int ready = left == 0 ? 0 : ::poll(&waiting, 1, left);
    if (ready > 0) {
      return {};
    }
    if (ready == 0) {
      return NotFoundError("");
    }
    if (errno != EINTR) {
      return IoError(std::strerror(errno));
    }
  }
}

}  // namespace

Status Worker::Start() {
  if (process_ > 0) {
    return {};
  }
  MSP_RETURN_IF_ERROR(Spawn());
  ++starts_;
  const Clock::time_point deadline = Clock::now() + kStartLimit;
  Status status = Send(StartFrame(), deadline);
  if (status.ok()) {
    status = ReceiveFrame(FrameKind::kReady, deadline);
  }
  if (status.ok()) {
    Result<WorkerGreeting> greeting = ReadGreeting(payload_);
    status = greeting.ok() ? OkStatus() : greeting.status();
    if (greeting.ok()) {
      greeting_ = *std::move(greeting);
      if (greeting_.failed) {
        status = NotFoundError(greeting_.message);
      }
    }
  }
  if (status.ok()) {
    return {};
  }
  const std::string words = greeting_.failed ? std::string() : LastWords();
  Stop();
  return DeviceError(fmt::format("{} cannot run operators: {}{}", base::Printable(options_.python),
                                 status.message(), words.empty() ? "" : "\n" + words))
      .WithHint("name a Python that has PyTorch with --python");
}

void Worker::MakeScratch() {
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  if (failure) {
    return;
  }
  base::RemoveAbandoned(folder, base::Leftovers::kOfLaunchers);
  std::string path;
  scratch_lock_ = base::MakeUnfinished([&] {
    path = (std::filesystem::absolute(folder, failure) / "msprobe-worker-XXXXXX").string();
    return ::mkdtemp(path.data()) == nullptr
               ? -1
               : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  });
  if (scratch_lock_ >= 0) {
    scratch_ = std::move(path);
    scratch_slot_ = base::RemoveOnInterrupt(scratch_.string());
  }
}

void Worker::RemoveScratch() {
  if (!scratch_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
    base::ForgetOnInterrupt(scratch_slot_);
    scratch_.clear();
  }
  if (scratch_lock_ >= 0) {
    ::close(scratch_lock_);
    scratch_lock_ = -1;
  }
}

std::string Worker::StartFrame() const {
  FrameWriter frame(FrameKind::kStart);
  frame.Text(scratch_.string());
  frame.Integer(static_cast<int64_t>(AvailableMemory()));
  const std::vector<NamedGroup> groups = WorkerVocabulary(options_.vocabulary);
  frame.Count(groups.size());
  for (const NamedGroup& group : groups) {
    frame.Text(group.kind);
    frame.Count(group.names.size());
    for (const std::string_view name : group.names) {
      frame.Text(name);
    }
  }
  return frame.Finish();
}

Status Worker::Spawn() {
  // The worker copies what it is given, in wider dtypes.
  MSP_ASSIGN_OR_RETURN(arguments_, SharedMemory::Create(AvailableMemory() / 4));
  MSP_ASSIGN_OR_RETURN(results_, SharedMemory::Create(0));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return IoError(fmt::format("cannot start a worker: {}", std::strerror(errno)));
  }
  errors_ = NewMemoryFile("msprobe_errors", MFD_CLOEXEC);
  MakeScratch();
  const int given[3] = {::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree),
                        ::fcntl(arguments_.descriptor(), F_DUPFD_CLOEXEC, kFirstFree),
                        ::fcntl(results_.descriptor(), F_DUPFD_CLOEXEC, kFirstFree)};
  ::close(ends[1]);
  socket_ = ends[0];

  std::vector<std::string> words = {options_.python,
                                    std::filesystem::absolute(options_.script).string(),
                                    options_.device,
                                    std::to_string(options_.device_id),
                                    options_.jit_compile ? "jit" : "",
                                    options_.strict ? "strict" : "",
                                    options_.reference_file.string()};
  std::vector<std::pair<std::string, std::string>> changes = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  if (options_.threads > 0) {
    changes.emplace_back("OMP_NUM_THREADS", std::to_string(options_.threads));
  }
  std::vector<std::string> variables = base::EnvironmentWith(changes, IsForWorkers);
  const std::vector<char*> word_pointers = base::Pointers(words);
  const std::vector<char*> variable_pointers = base::Pointers(variables);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGXFSZ);  // ignored by this program
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C is for this program, which ends it
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, errors_, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, errors_, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, given[0], kSocket);
  ::posix_spawn_file_actions_adddup2(&files, given[1], kArguments);
  ::posix_spawn_file_actions_adddup2(&files, given[2], kResults);
  pid_t process = 0;
  const int failure = ::posix_spawnp(&process, word_pointers[0], &files, &attributes,
                                     word_pointers.data(), variable_pointers.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  for (const int descriptor : given) {
    ::close(descriptor);
  }
  if (failure != 0) {
    Stop();
    return NotFoundError(fmt::format("cannot start {}: {}", base::Printable(options_.python),
                                     std::strerror(failure)))
        .WithHint("name a Python that has PyTorch with --python");
  }
  process_ = process;
  return {};
}

Status Worker::Send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MSP_RETURN_IF_ERROR(WaitUntilReady(socket_, POLLOUT, deadline));
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && errno != EINTR && errno != EAGAIN) {
      return IoError("it ended");
    }
  }
  return {};
}

Status Worker::Receive(char* out, size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    MSP_RETURN_IF_ERROR(WaitUntilReady(socket_, POLLIN, deadline));
    const ssize_t count = ::recv(socket_, out, bytes, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) {
      return IoError("it ended");
    }
    if (count > 0) {
      out += count;
      bytes -= static_cast<size_t>(count);
    }
  }
  return {};
}

Status Worker::ReceiveFrame(FrameKind kind, Deadline deadline) {
  char header[kFrameHeaderBytes];
  MSP_RETURN_IF_ERROR(Receive(header, sizeof(header), deadline));
  MSP_ASSIGN_OR_RETURN(const FrameHeader read, ReadFrameHeader(header));
  if (read.kind != kind) {
    return BadFormatError("the worker sent an unexpected frame");
  }
  payload_.resize(read.payload_bytes);
  return Receive(payload_.data(), payload_.size(), deadline);
}

Result<WorkerAnswer> Worker::Call(const std::string& frame) {
  ForgetWords();
  const Clock::time_point deadline = Clock::now() + options_.time_limit;
  Status status = Send(frame, deadline);
  if (status.ok()) {
    status = ReceiveFrame(FrameKind::kAnswer, deadline);
  }
  if (!status.ok()) {
    return Give(std::move(status));
  }
  Result<std::span<const std::byte>> shared = results_.Whole();
  if (!shared.ok()) {
    return Give(std::move(shared).status());
  }
  Result<WorkerAnswer> answer = ReadAnswer(payload_, *shared);
  if (!answer.ok()) {
    return Give(std::move(answer).status());
  }
  return answer;
}

Status Worker::Give(Status why) {
  std::string reason;
  if (why.code() == StatusCode::kNotFound) {
    reason = fmt::format(
        "no answer within {}",
        base::FormatSeconds(std::chrono::duration<double>(options_.time_limit).count()));
  } else if (why.code() == StatusCode::kIo) {
    int state = 0;
    // It has closed its end: it is about to end, unless it is stuck.
    pid_t ended = 0;
    for (int i = 0; i < 100 && (ended = ::waitpid(process_, &state, WNOHANG)) == 0; ++i) {
      ::usleep(10'000);
    }
    if (ended == process_) {
      process_ = -1;
    }
    reason = ended > 0 && WIFSIGNALED(state)
                 ? fmt::format("the worker was ended by signal {} ({})", WTERMSIG(state),
                               ::strsignal(WTERMSIG(state)))
                 : "the worker ended";
  } else {
    reason = why.message();
  }
  if (const std::string words = LastWords(); !words.empty()) {
    reason += ": " + words.substr(words.rfind('\n') + 1);
  }
  Stop();
  return DeviceError(std::move(reason));
}

void Worker::ForgetWords() {
  if (::lseek(errors_, 0, SEEK_CUR) > kMostWordsBytes && ::ftruncate(errors_, 0) == 0) {
    ::lseek(errors_, 0, SEEK_SET);  // of the worker as well: both have one file description
  }
}

std::string Worker::LastWords() const {
  if (errors_ < 0) {
    return {};
  }
  const off_t size = ::lseek(errors_, 0, SEEK_END);
  const off_t first = std::max<off_t>(0, size - static_cast<off_t>(kLastWordsBytes));
  std::string words(static_cast<size_t>(std::max<off_t>(0, size - first)), '\0');
  const ssize_t count = ::pread(errors_, words.data(), words.size(), first);
  words.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return base::Printable(base::Trim(words), "\n");
}

void Worker::Stop() {
  if (socket_ >= 0) {
    ::close(socket_);
    socket_ = -1;
  }
  if (process_ > 0) {
    ::kill(-process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
  }
  if (errors_ >= 0) {
    ::close(errors_);
    errors_ = -1;
  }
  RemoveScratch();
}

WorkerOptions WorkerOptionsOf(const CheckOptions& options, const std::string& python, size_t number,
                              size_t workers) {
  WorkerOptions worker;
  worker.python = python;
  worker.script = options.worker_script;
  worker.reference_file = options.reference_file;
  worker.device = options.device;
  worker.device_id = options.device_ids[number % options.device_ids.size()];
  worker.jit_compile = options.jit_compile;
  worker.strict = options.strict;
  worker.vocabulary = options.vocabulary;
  worker.threads = workers > 1 ? std::max<size_t>(1, base::UsableCores() / workers) : 0;
  worker.time_limit = std::chrono::milliseconds(static_cast<int64_t>(options.time_limit_s * 1000));
  return worker;
}

Result<WorkerPointer> StartFirst(const CheckOptions& options, size_t workers, std::string& python,
                                 std::vector<std::string>& warnings) {
  if (options.worker_script.empty()) {
    return NotFoundError(options.no_worker_script)
        .WithHint("set MSPROBE_PYTHON_PATH to the folder that holds the package msprobe");
  }
  Status first_error;
  for (const std::string& candidate : options.pythons) {
    auto worker = std::make_unique<Worker>(WorkerOptionsOf(options, candidate, 0, workers));
    Status status = worker->Start();
    if (status.ok()) {
      python = candidate;
      if (const std::string& missing = worker->greeting().message; !missing.empty()) {
        warnings.push_back(fmt::format(
            "operators run with more rights than they need, which this system does not let a "
            "process give up: {}",
            base::Printable(missing)));
      }
      return worker;
    }
    if (first_error.ok()) {
      first_error = std::move(status);
    } else if (status.message() != first_error.message()) {
      first_error.AddContext(status.message() + "; before that");
    }
  }
  return first_error;
}

}  // namespace msprobe::analysis::accuracy
