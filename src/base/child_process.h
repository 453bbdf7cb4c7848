// Runs another program to its end and keeps what it says. For questions to tools of the user; a
// script that is to be captured runs through commands/dump_launcher.h, which passes signals on.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::base {

struct ChildOptions {
  std::vector<std::string> program;  // looked up in PATH; with its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};  // set in its environment
  std::chrono::milliseconds patience{60'000};                       // it is killed afterwards
  size_t most_bytes = size_t{1} << 20;  // of output that is kept; the rest is read and dropped
};

struct ChildEnd {
  int exit_code = 0;
  int signal = 0;          // not 0: ended by it
  bool timed_out = false;  // killed by us
  bool cut = false;        // it said more than was kept
  std::string output;      // standard output and standard error, as they came
};

// This process's environment with some variables replaced, "NAME=value" each. `keeps` says which of
// the others stay; empty: all.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes,
    const std::function<bool(std::string_view name, std::string_view value)>& keeps = {});

// What exec() and its relatives want: pointers into `texts`, which they must not outlive, and null.
std::vector<char*> Pointers(std::vector<std::string>& texts);

// An error when it cannot be started at all. Its standard input is empty.
Result<ChildEnd> RunChild(const ChildOptions& options);

}  // namespace msprobe::base
