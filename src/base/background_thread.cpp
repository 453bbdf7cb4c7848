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

NoSignals::NoSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous_);
}

NoSignals::~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

Result<std::thread> StartBackgroundThread(std::function<void()> body) {
  const NoSignals no_signals;  // a new thread begins with the mask of its maker
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return IoError(fmt::format("cannot start a thread: {}", error.what()));
  }
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
