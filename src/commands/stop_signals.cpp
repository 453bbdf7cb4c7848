#include "src/commands/stop_signals.h"

#include <atomic>

namespace msprobe::commands {
namespace {

std::atomic<bool> stop_wanted{false};
struct sigaction earlier_interrupt = {};
struct sigaction earlier_terminate = {};

void RememberStop(int signal) {
  stop_wanted.store(true);
  ::sigaction(signal, signal == SIGINT ? &earlier_interrupt : &earlier_terminate, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  stop_wanted.store(false);
  struct sigaction action = {};
  action.sa_handler = RememberStop;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, nullptr, &earlier_interrupt);
  ::sigaction(SIGTERM, nullptr, &earlier_terminate);
  ::sigaction(SIGINT, &action, &interrupt_);
  ::sigaction(SIGTERM, &action, &terminate_);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
}

bool StopSignals::HaveCome() { return stop_wanted.load(); }

}  // namespace msprobe::commands
