// Ctrl-C and termination as a wish to end with an answer, for commands that run until somebody says
// so.
#pragma once

#include <csignal>

namespace msprobe::commands {

// While it lives, the first SIGINT or SIGTERM is remembered; the second one ends the process as
// always.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  static bool HaveCome();
};

}  // namespace msprobe::commands
