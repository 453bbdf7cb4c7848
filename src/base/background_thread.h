// Threads of ours inside somebody else's process, and the one signal that writing files can raise.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include "msprobe/status.h"

namespace msprobe::base {

// While it lives, this thread takes no signals, and threads that it starts never do: those of the
// training process are handled by its own threads.
class NoSignals {
 public:
  NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals();

 private:
  sigset_t previous_;
};

// A thread that takes no signals. std::bad_alloc passes.
Result<std::thread> StartBackgroundThread(std::function<void()> body);

// While it lives, a write beyond the process's file size limit fails with EFBIG in this thread
// instead of ending the process.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal();

 private:
  sigset_t previous_;
  bool was_pending_ = false;
};

}  // namespace msprobe::base
