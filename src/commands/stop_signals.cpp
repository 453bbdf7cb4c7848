#include "src/commands/stop_signals.h"

#include <atomic>
#include <utility>

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
  for (const auto& [signal, earlier] :
       {std::pair(SIGINT, &earlier_interrupt), std::pair(SIGTERM, &earlier_terminate)}) {
    ::sigaction(signal, nullptr, earlier);
    if (earlier->sa_handler != SIG_IGN) {  // of a job in the background of a script
      ::sigaction(signal, &action, nullptr);
    }
  }
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &earlier_interrupt, nullptr);
  ::sigaction(SIGTERM, &earlier_terminate, nullptr);
}

bool StopSignals::HaveCome() { return stop_wanted.load(); }

}  // namespace msprobe::commands
