// The process that runs operators: Python with a framework, started once and spoken to in frames.
// A crash costs the call that it was given and nothing else; its access to the system is bounded
// (docs/security.md): variables are chosen here, the rest it takes from itself in
// tools/python/msprobe/_accuracy/confine.py.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/check/options.h"

namespace msprobe::analysis::accuracy {

struct WorkerOptions {
  std::string python;
  std::filesystem::path script;
  std::filesystem::path reference_file;
  std::string device = "auto";
  int64_t device_id = 0;
  bool jit_compile = false;
  bool strict = false;
  size_t threads = 0;  // of the framework on the CPU; 0: as it likes
  Vocabulary vocabulary = Vocabulary::kPyTorch;
  std::chrono::milliseconds time_limit{300'000};
};

class Worker {
 public:
  explicit Worker(WorkerOptions options) : options_(std::move(options)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { Stop(); }

  // Starts the process if there is none, and waits until it has its framework. An error says which
  // Python, and what it could not import.
  Status Start();

  // Memory for the arguments of the next call. Clear() it before.
  SharedMemory& arguments() { return arguments_; }

  // Sends a whole frame and waits for the answer, whose tensors are valid until the next call. An
  // error means that the process is gone: it crashed, was too slow, or said what it must not.
  Result<WorkerAnswer> Call(const std::string& frame);

  const WorkerGreeting& greeting() const { return greeting_; }
  uint64_t starts() const { return starts_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  Status Spawn();
  // The folder that the process may write to; where none can be made it writes to none.
  void MakeScratch();
  void RemoveScratch();
  std::string StartFrame() const;
  Status Send(std::string_view bytes, Deadline deadline);
  Status Receive(char* out, size_t bytes, Deadline deadline);
  Status ReceiveFrame(FrameKind kind, Deadline deadline);  // into payload_
  // Ends the process; returns why the call failed.
  Status Give(Status why);
  void Stop();
  // For operators that print much: only the end of the output is kept.
  void ForgetWords();
  // The end of what it wrote to its standard error.
  std::string LastWords() const;

  const WorkerOptions options_;
  pid_t process_ = -1;
  int socket_ = -1;
  int errors_ = -1;  // a file in memory that takes its standard output and error
  std::filesystem::path scratch_;
  int scratch_lock_ = -1;
  int scratch_slot_ = -1;
  SharedMemory arguments_;
  SharedMemory results_;
  WorkerGreeting greeting_;
  std::string payload_;
  uint64_t starts_ = 0;
};

// Workers as the options of a check want them.

using WorkerPointer = std::unique_ptr<Worker>;

// Options of worker `number` of `workers`, which share the cores and take the devices in turn.
WorkerOptions WorkerOptionsOf(const CheckOptions& options, const std::string& python, size_t number,
                              size_t workers);

// The first of `workers`, running, and the Python that it runs in. An error tells of every Python
// why it cannot be used; a warning, what of a worker's confinement the system does not allow.
Result<WorkerPointer> StartFirst(const CheckOptions& options, size_t workers, std::string& python,
                                 std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::accuracy
