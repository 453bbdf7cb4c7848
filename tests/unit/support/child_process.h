// Runs a piece of a test in a child process: for signals, limits and rights that the test program
// itself must keep.
#pragma once

#include <csignal>
#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace msprobe::test_support {

struct ChildEnd {
  int exit_code = -1;  // -1: it ended by a signal
  int signal = 0;
};

// The child runs `body` and ends with its return value, without running the parent's exit handlers.
inline ChildEnd RunInChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int state = 0;
  EXPECT_EQ(::waitpid(child, &state, 0), child);
  ChildEnd end;
  if (WIFEXITED(state)) {
    end.exit_code = WEXITSTATUS(state);
  } else if (WIFSIGNALED(state)) {
    end.signal = WTERMSIG(state);
  }
  return end;
}

// Whether tools/dev/test_aarch64.sh runs this under qemu, which keeps no limit of memory and does
// not end the first process of a namespace.
inline bool IsEmulated() { return std::getenv("MSPROBE_EMULATED") != nullptr; }

// Root may read everything: permission tests become the user "nobody" first (for the rest of this
// child).
inline bool BecomeOrdinaryUser() { return ::geteuid() != 0 || ::setuid(65534) == 0; }

}  // namespace msprobe::test_support
