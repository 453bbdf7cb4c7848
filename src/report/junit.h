// Results as a JUnit report: CI systems show it without knowing what it is about.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace msprobe::report {

enum class JunitOutcome : uint8_t { kPassed, kFailed, kError };  // kError: it could not be judged

struct JunitCase {
  std::string name;
  double seconds = 0;
  JunitOutcome outcome = JunitOutcome::kPassed;
  std::string type;     // in a word or two
  std::string message;  // one line
  std::string details;  // any number of lines
};

// `command`: "compare", in "msprobe compare". `seconds`: of the whole run.
std::string JunitXml(std::string_view command, std::span<const JunitCase> cases, double seconds);

}  // namespace msprobe::report
