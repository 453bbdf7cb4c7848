#include "src/base/background_thread.h"

#include <ctime>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

namespace msprobe::base {
namespace {

sigset_t FileSizeSignal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGXFSZ);
  return set;
}

bool IsPending() {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

Result<std::thread> StartBackgroundThread(std::function<void()> body) {
  // A new thread begins with the mask of its maker.
  sigset_t all;
  sigset_t previous;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::thread thread;
  Status status;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    status = IoError(fmt::format("cannot start a thread: {}", error.what()));
  } catch (...) {  // no memory for one; the mask is the caller's in any case
    ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!status.ok()) {
    return status;
  }
  return thread;
}

NoFileSizeSignal::NoFileSizeSignal() : was_pending_(IsPending()) {
  const sigset_t signal = FileSizeSignal();
  ::pthread_sigmask(SIG_BLOCK, &signal, &previous_);
}

NoFileSizeSignal::~NoFileSizeSignal() {
  // What our writes raised must not be delivered when the mask is restored.
  if (!was_pending_ && IsPending()) {
    const sigset_t signal = FileSizeSignal();
    const timespec at_once = {0, 0};
    ::sigtimedwait(&signal, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace msprobe::base
