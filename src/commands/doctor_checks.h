// What works on this machine and what does not: looked at, not guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msprobe::commands {

enum class Health : uint8_t {
  kWorks,
  kAbsent,  // not here, and not needed by everybody: a framework, an accelerator
  kBroken,  // should work, and does not
};

struct Check {
  std::string what;  // "capture from PyTorch"
  Health health = Health::kWorks;
  std::string finding;  // what was seen: versions, places, the error
  std::string remedy;   // a command or a sentence; empty where nothing is to be done
};

// Runs the python3 on PATH, which may take seconds. In the order in which people ask.
std::vector<Check> ExamineMachine();

// The variables of the environment that change what msprobe and the frameworks do.
struct TellingVariable {
  std::string name;
  std::string value;  // secrets in it are replaced
  size_t masked = 0;  // so many
};
std::vector<TellingVariable> TellingVariables();

}  // namespace msprobe::commands
