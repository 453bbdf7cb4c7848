// Warnings of one kind, of which a few bytes in a file can make any number: the first ones are
// written, the rest is counted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace msprobe::checkpoint {

class LimitedWarnings {
 public:
  void Add(std::string text, std::vector<std::string>& warnings) {
    if (++count_ <= kMostShown) {
      warnings.push_back(std::move(text));
    }
  }

  // "12 more shards cannot be read", `what` being what follows the number.
  void CountRest(std::string_view what, std::vector<std::string>& warnings) const {
    if (count_ > kMostShown) {
      warnings.push_back(fmt::format("{} more {}", count_ - kMostShown, what));
    }
  }

 private:
  static constexpr size_t kMostShown = 8;

  size_t count_ = 0;
};

}  // namespace msprobe::checkpoint
