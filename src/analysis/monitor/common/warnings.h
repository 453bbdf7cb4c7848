// What is told about a run's files: the first twenty in order, the others as a number. A run has as
// many rows as it likes, and one broken writer breaks them all alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::monitor {

class Warnings {
 public:
  explicit Warnings(std::vector<std::string>& texts) : texts_(texts) {}
  void Add(std::string text) {
    if (texts_.size() < kMostWarnings) {
      texts_.push_back(std::move(text));
    } else {
      ++more_;
    }
  }
  void Count(uint64_t more) { more_ += more; }
  void Finish() {
    if (more_ > 0) {
      texts_.push_back(fmt::format("... and {} more like this", base::FormatCount(more_)));
    }
  }

 private:
  static constexpr size_t kMostWarnings = 20;
  std::vector<std::string>& texts_;
  uint64_t more_ = 0;
};

}  // namespace msprobe::analysis::monitor
