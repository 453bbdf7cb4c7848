// How far the Python processes of a launched program came, which explains why nothing was captured:
// each of them appends letters to a small temporary file (tools/python/msprobe/_inject), and lines
// with what kept it from capturing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::commands {

enum class LaunchProgress : uint8_t {
  kUnknown,   // no file could be made, or it was not readable
  kNoPython,  // no Python process loaded the starter
  kPython,    // one did, but none imported the framework
  kFramework,
};

class LaunchTrace {
 public:
  // Makes the file, in the folder for temporary files and readable for this user only; without it
  // path() is empty.
  LaunchTrace();
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;
  ~LaunchTrace();  // removes it

  const std::string& path() const { return path_; }
  LaunchProgress Read() const;
  // What kept processes from capturing, each once.
  std::vector<std::string> Reasons() const;

 private:
  std::string path_;
  int descriptor_ = -1;  // for its lock
};

// What a user can do about it; empty when nothing is known. `framework` as the flag -f spells it;
// `reasons`: what processes said themselves.
std::string WhyNothing(LaunchProgress progress, std::string_view framework,
                       const std::vector<std::string>& reasons = {});

}  // namespace msprobe::commands
