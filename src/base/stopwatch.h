// Wall-clock seconds of a piece of work, for summaries; never part of a result that is compared.
#pragma once

#include <chrono>

namespace msprobe::base {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace msprobe::base
